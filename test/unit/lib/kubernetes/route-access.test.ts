import { useCertificates } from '../../../support/api/api-world.ts';
import { join } from 'node:path';
import { writeFileSync, readFileSync, mkdirSync, cpSync } from 'node:fs';
import {
  findAccess,
  type KnownApiservers,
  listApiServers,
  formatServer,
  isUnhealthy,
} from '../../../../lib/kubernetes/route.ts';
import { describe, test, expect } from '@jest/globals';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';

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
      ...{ origin: file, host: '10.77.0.50', port: 6443, serverName: '10.77.0.50', isInCluster: false },
      // Said, or NODE_TLS_REJECT_UNAUTHORIZED of whoever's shell would have the token sent to anybody.
      tls: { ca: readFileSync(certificates().authority), rejectUnauthorized: true },
      headers: { Authorization: `Bearer ${secret}` },
    });
    const cluster = { 'insecure-skip-tls-verify': true };
    expect(await read(writeKubeconfig({ cluster }))).toMatchObject({ tls: { rejectUnauthorized: false } });
  });

  test('may have a name for the certificate, a client certificate, an IPv6 address and no port', async () => {
    const cluster = { server: 'https://[fd77::50]', 'tls-server-name': 'kubernetes' };
    const { certificate, key } = certificates().admin;
    const user = {
      'client-certificate': 'admin.crt',
      'client-key-data': readFileSync(key).toString('base64'),
    };
    expect(await read(writeKubeconfig({ cluster, user }))).toMatchObject({
      ...{ host: 'fd77::50', port: 443, serverName: 'kubernetes' },
      tls: { cert: readFileSync(certificate), key: readFileSync(key) },
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

  const withCluster = (cluster: object) => () => writeKubeconfig({ cluster });
  const withExec = () => writeKubeconfig({ user: { exec: { command: 'touch' } } });
  const bad: [string, () => string, RegExp][] = [
    ['is gone', () => '/nonexistent/admin.conf', /is not a readable file$/],
    ['is endless', () => '/dev/zero', /is not a readable file$/],
    ['is no YAML', () => write(`a: b: ${secret}`), /it is not a kubeconfig in YAML$/],
    ['is empty', () => write(''), /it is not a kubeconfig in YAML$/],
    ['is a list', () => write('[1, 2]'), /its current context names no cluster and user$/],
    ['has no server', withCluster({ server: '' }), /clusters\[0\]\.cluster\.server is missing$/],
    ['has a server that is none', withCluster({ server: 5 }), /not a kubeconfig in YAML$/],
    ['is for http', withCluster({ server: 'http://m1' }), /its server is not an https:\/\/ address$/],
    ['has no CA', withCluster({ 'certificate-authority': 'x' }), /\/x cannot be read \(ENOENT\)$/],
    ['starts a program', withExec, /another program, which vipnat/],
    ['goes by a proxy', withCluster({ 'proxy-url': 'http://p' }), /behind a proxy/],
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
        ...{ origin: "this pod's service account", host: 'fd00:96::1', port: 443, isInCluster: true },
        tls: { ca: readFileSync(certificates().authority), rejectUnauthorized: true },
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

const vips = ['10.0.0.50:6443', '[fd00::50]:6443'].map(toEndpoint);
const endpoints = ['10.0.0.11:6443', '10.0.0.12:6443', '10.0.0.13:6443'].map(toEndpoint);
const known = { endpoints, localAddresses: new Set(['10.0.0.12', '10.0.0.50']) };
const nobody = { endpoints: [], localAddresses: new Set<string>() };

const list = (host: string, more: { port?: number; isInCluster?: boolean; known?: KnownApiservers } = {}) => {
  const { port = 6443, isInCluster = false } = more;
  return listApiServers({ host, port, isInCluster }, more.known ?? known, vips).map(formatServer);
};

describe('the API is asked', () => {
  test.each([
    ['10.0.0.50', 6443],
    ['10.0.0.50', 8443],
    ['fd00::50', 6443],
    ['fd00:0:0:0::50', 6443],
  ])('at this host and then at the others, never at a virtual IP, whatever its port: %s %d', (host, port) => {
    expect(list(host, { port })).toEqual(['10.0.0.12:6443', '10.0.0.11:6443', '10.0.0.13:6443']);
  });

  const here = '10.0.0.12:6443';
  const others = ['10.0.0.11:6443', '10.0.0.13:6443'];
  const moved = { ...known, own: [toEndpoint('10.0.0.99:6443'), toEndpoint('10.0.0.50:6443')] };
  const inCluster = { port: 443, isInCluster: true };

  test.each([
    ['where the credentials say, if elsewhere', '10.0.0.13', {}, ['10.0.0.13:6443', here, '10.0.0.11:6443']],
    ['where they say, then at those known', '192.0.2.1', { port: 443 }, ['192.0.2.1:443', here, ...others]],
    ['at the ClusterIP last: it may be nowhere', '10.96.0.1', inCluster, [here, ...others, '10.96.0.1:443']],
    ['by a name last, for it takes DNS', 'api.example.com', {}, [here, ...others, 'api.example.com:6443']],
  ])('%s', (_, host, more, servers) => {
    expect(list(host, more)).toEqual(servers);
  });

  test('at this host’s own apiserver, which nobody names, after all who are named', () => {
    const named = [here, ...others, '10.0.0.99:6443'];
    expect(list('10.0.0.50', { known: moved })).toEqual(named);
    expect(list('10.96.0.1', { ...inCluster, known: moved })).toEqual([...named, '10.96.0.1:443']);
  });

  test.each([
    ['10.0.0.50', {}, ['127.0.0.1:6443']],
    ['10.0.0.50', { port: 8443 }, ['127.0.0.1:8443', '127.0.0.1:6443']],
    ['fd00:10:96::1', inCluster, ['127.0.0.1:6443', '[fd00:10:96::1]:443']],
    ['10.0.0.11', {}, ['10.0.0.11:6443']],
  ])('on this host while no apiserver is known, for it may have one: %s %j', (host, more, servers) => {
    expect(list(host, { ...more, known: nobody })).toEqual(servers);
  });
});

describe('an apiserver is known to be down', () => {
  const unwell = new Set(['10.0.0.12:6443', '[fd00::12]:6443']);

  test.each([
    ['10.0.0.12', 6443, true],
    ['10.0.0.12', 443, false],
    ['10.0.0.11', 6443, false],
    ['fd00::12', 6443, true],
    ["127.0.0.1 as this host's own", 6443, true],
    ["::1 as this host's own", 6443, true],
    ['127.0.0.1 with the port of somebody else', 8443, false],
    ['10.96.0.1', 443, false],
    ['api.example.com', 6443, false],
  ])('%s, port %d: %s', (name, port, isDown) => {
    const [host = ''] = name.split(' ');
    expect(isUnhealthy({ host, port }, known, unwell)).toBe(isDown);
  });

  test('but not the one at a loopback address, where this host has none', () => {
    const own = { host: '127.0.0.1', port: 6443 };
    expect(isUnhealthy(own, { endpoints, localAddresses: new Set() }, unwell)).toBe(false);
    expect(isUnhealthy(own, nobody, unwell)).toBe(false);
  });
});
