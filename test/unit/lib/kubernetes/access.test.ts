import { describe, expect, test } from '@jest/globals';
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { findAccess } from '../../../../lib/kubernetes/access.ts';
import { useCertificates } from '../../../support/api/api-world.ts';

const secret = 'c2VjcmV0LXRva2Vu';
const certificates = useCertificates();

interface Parts {
  readonly cluster?: object;
  readonly user?: object;
}

/** A kubeconfig as kubeadm writes it, with other parts where they are given. JSON is YAML. */
function writeKubeconfig({ cluster = {}, user = { token: secret } }: Parts = {}): string {
  const file = join(certificates().folder, `${Math.random()}.conf`);
  const authority = { 'certificate-authority': 'ca.crt' };
  const config = {
    'current-context': 'admin',
    contexts: [{ name: 'admin', context: { cluster: 'c', user: 'u' } }],
    clusters: [{ name: 'c', cluster: { server: 'https://10.77.0.50:6443/', ...authority, ...cluster } }],
    users: [{ name: 'u', user }],
  };
  writeFileSync(file, JSON.stringify(config));
  return file;
}

const read = (file: string) => findAccess(file, {})?.();

describe('a kubeconfig', () => {
  test('says where the API is, by whose CA, and who asks', async () => {
    const file = writeKubeconfig();
    expect(await read(file)).toEqual({
      origin: file,
      host: '10.77.0.50',
      port: 6443,
      serverName: '10.77.0.50',
      isInCluster: false,
      tls: { ca: readFileSync(certificates().authority) },
      headers: { Authorization: `Bearer ${secret}` },
    });
  });

  test('may have a name for the certificate, a client certificate, an IPv6 address and no port', async () => {
    const cluster = { server: 'https://[fd77::50]', 'tls-server-name': 'kubernetes' };
    const user = {
      'client-certificate': 'admin.crt',
      'client-key-data': readFileSync(certificates().admin.key).toString('base64'),
    };
    expect(await read(writeKubeconfig({ cluster, user }))).toMatchObject({
      host: 'fd77::50',
      port: 443,
      serverName: 'kubernetes',
      tls: {
        cert: readFileSync(certificates().admin.certificate),
        key: readFileSync(certificates().admin.key),
      },
      headers: {},
    });
  });

  test('is read anew each time, for it is renewed', async () => {
    const file = writeKubeconfig();
    const readAccess = findAccess(file, {});
    await readAccess?.();
    writeFileSync(file, readFileSync(file, 'utf8').replace(secret, 'another'));
    expect((await readAccess?.())?.headers).toEqual({ Authorization: 'Bearer another' });
  });

  const bad: [string, () => string, RegExp][] = [
    ['is gone', () => '/nonexistent/admin.conf', /is not a readable file$/],
    ['is endless', () => '/dev/zero', /is not a readable file$/],
    ['is no YAML', () => write(`a: b: ${secret}`), /it is not a kubeconfig in YAML$/],
    ['is empty', () => write(''), /it is not a kubeconfig in YAML$/],
    ['is a list', () => write('[1, 2]'), /its current context names no cluster and user$/],
    [
      'has no server',
      () => writeKubeconfig({ cluster: { server: '' } }),
      /clusters\[0\]\.cluster\.server is missing$/,
    ],
    [
      'has a server that is none',
      () => writeKubeconfig({ cluster: { server: 5 } }),
      /not a kubeconfig in YAML$/,
    ],
    [
      'is for http',
      () => writeKubeconfig({ cluster: { server: 'http://m1' } }),
      /its server is not an https:\/\/ address$/,
    ],
    [
      'has no CA',
      () => writeKubeconfig({ cluster: { 'certificate-authority': 'x' } }),
      /\/x cannot be read \(ENOENT\)$/,
    ],
    [
      'starts a program',
      () => writeKubeconfig({ user: { exec: { command: 'touch' } } }),
      /another program, which vipnat/,
    ],
    ['goes by a proxy', () => writeKubeconfig({ cluster: { 'proxy-url': 'http://p' } }), /behind a proxy/],
  ];

  const write = (text: string) => {
    const file = join(certificates().folder, `${Math.random()}.conf`);
    writeFileSync(file, text);
    return file;
  };

  test.each(bad)('that %s is one sentence, without any secret', async (_what, make, why) => {
    const problem: unknown = await read(make())?.catch((error: unknown) => error);
    expect(problem).toMatchObject({ code: 'API_CREDENTIALS_INVALID', message: expect.stringMatching(why) });
    expect((problem as Error).message).not.toContain(secret);
    expect((problem as Error).message).not.toContain('\n');
  });
});

describe("a pod's service account", () => {
  test('is taken where there is one and no kubeconfig is given', async () => {
    const folder = join(certificates().folder, 'root/var/run/secrets/kubernetes.io/serviceaccount');
    mkdirSync(folder, { recursive: true });
    cpSync(certificates().authority, join(folder, 'ca.crt'));
    writeFileSync(join(folder, 'token'), `${secret}\n`);
    const environment = { KUBERNETES_SERVICE_HOST: 'fd00:96::1', KUBERNETES_SERVICE_PORT: '443' };
    process.env['KUBERNETES_SERVICE_HOST'] = environment.KUBERNETES_SERVICE_HOST;
    process.env['KUBERNETES_SERVICE_PORT'] = environment.KUBERNETES_SERVICE_PORT;
    const root = join(certificates().folder, 'root');
    try {
      expect(await findAccess(null, environment, root)?.()).toMatchObject({
        origin: "this pod's service account",
        host: 'fd00:96::1',
        port: 443,
        isInCluster: true,
        tls: { ca: readFileSync(certificates().authority) },
        headers: { Authorization: `Bearer ${secret}` },
      });
    } finally {
      delete process.env['KUBERNETES_SERVICE_HOST'];
      delete process.env['KUBERNETES_SERVICE_PORT'];
    }
  });

  test('is not looked for outside a pod, nor is any file at home', () => {
    expect(findAccess(null, { HOME: certificates().folder })).toBeNull();
    expect(findAccess(null, { KUBERNETES_SERVICE_HOST: '10.96.0.1' }, '/nonexistent')).toBeNull();
  });
});
