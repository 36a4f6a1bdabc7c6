import { join } from 'node:path';
import { families } from '../../../lib/net.ts';
import { masters, vips, clusterIps } from '../../../test/support/network/layout.ts';
import { writeFileSync } from 'node:fs';
import { execa } from 'execa';

/** A certificate and its key, as files. */
export interface KeyPair {
  readonly certificate: string;
  readonly key: string;
}

/** All certificates and keys of one control plane, as files; all signed by one authority. */
export interface Certificates {
  readonly authority: string;
  /** Valid for every master, the VIPs and the ClusterIPs; the common name is the master's own, so that a client knows who answered. */
  serving(master: string): KeyPair;
  /** A member of system:masters. */
  readonly admin: KeyPair;
  /** The user system:kube-proxy. */
  readonly kubeProxy: KeyPair;
  readonly serviceAccountKey: string;
}

/** Where a control plane's certificates are. */
export function locateCertificates(folder: string): Certificates {
  const pair = (name: string): KeyPair => ({
    certificate: join(folder, `${name}.crt`),
    key: join(folder, `${name}.key`),
  });
  return {
    authority: pair('ca').certificate,
    serving: pair,
    admin: pair('admin'),
    kubeProxy: pair('kube-proxy'),
    serviceAccountKey: pair('service-account').key,
  };
}

/** One that a lab needs beside those that all labs have. */
export interface CertificateRequest {
  /** Of its files. */
  readonly name: string;
  /** As openssl takes it: `/O=GROUP/CN=USER`. */
  readonly subject: string;
  /** Where it is valid for a server, too: `DNS:` and `IP:` with what they are. */
  readonly alternatives?: readonly string[];
}

/** Makes them, and those that are asked for on top. */
export async function createCertificates(
  folder: string,
  more: readonly CertificateRequest[] = [],
): Promise<Certificates> {
  const addresses = families.flatMap((family) => [
    ...masters.map((master) => master.addresses[family]),
    vips[family],
    clusterIps[family],
  ]);
  const names = ['kubernetes', 'kubernetes.default', 'kubernetes.default.svc', 'localhost'];
  const alternatives = [
    ...names.map((name) => `DNS:${name}`),
    ...[...addresses, '127.0.0.1', '::1'].map((address) => `IP:${address}`),
  ].join(',');
  writeFileSync(join(folder, 'serving.ext'), `subjectAltName=${alternatives}\nextendedKeyUsage=serverAuth\n`);
  writeFileSync(join(folder, 'client.ext'), 'extendedKeyUsage=clientAuth\n');
  const script = [
    newKey('ca'),
    'openssl req -x509 -new -key ca.key -subj /CN=lab -days 30 -out ca.crt',
    newKey('service-account'),
    ...masters.map(({ name }) => issue(name, `/CN=${name}`, 'serving.ext')),
    issue('admin', '/O=system:masters/CN=admin', 'client.ext'),
    issue('kube-proxy', '/CN=system:kube-proxy', 'client.ext'),
    ...more.map((request) => issue(request.name, request.subject, writeExtensions(folder, request))),
  ].join('\n');
  await execa('sh', ['-e', '-s'], { cwd: folder, input: script });
  return locateCertificates(folder);
}

function writeExtensions(folder: string, { name, alternatives }: CertificateRequest): string {
  if (alternatives === undefined) return 'client.ext';
  const lines = [`subjectAltName=${alternatives.join(',')}`, 'extendedKeyUsage=serverAuth,clientAuth', ''];
  writeFileSync(join(folder, `${name}.ext`), lines.join('\n'));
  return `${name}.ext`;
}

function newKey(name: string): string {
  return `openssl ecparam -name prime256v1 -genkey -noout -out ${name}.key`;
}

function issue(name: string, subject: string, extensions: string): string {
  return `${newKey(name)}
openssl req -new -key ${name}.key -subj "${subject}" |
  openssl x509 -req -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -extfile ${extensions} -out ${name}.crt`;
}
