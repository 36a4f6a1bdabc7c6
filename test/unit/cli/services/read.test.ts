import { makeFolder } from '../../../support/network/own-folder.ts';
import { join } from 'node:path';
import { copyFileSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { ApiRoute, findPersonalAccess, type PersonalSources } from '../../../../lib/kubernetes/route.ts';
import { createServicesApi, findClusterRoute, findSystemNamespace } from '../../../../cli/services/read.ts';
import { test, expect } from '@jest/globals';
import { useCertificates, routeTo } from '../../../support/api/api-world.ts';
import { KubeApi } from '../../../support/kube-api/kube-api.ts';
import { controllerQuestions } from '../../../support/kube-api/service-questions.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { electionLease } from '../../../../lib/api/vipnat.ts';
import { makeLoadBalancer } from '../../../support/kube-api/service-objects.ts';
import { runHere } from '../../../support/documents/call.ts';
import { createServer } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { once } from 'node:events';
import { pipeline } from 'node:stream';
import { readTable } from '../../../support/doctor/well-host.ts';

const folder = makeFolder('kubeconfig');
const certificates = useCertificates();

/** Writes a file, and answers its path. */
const write = (name: string, text: string, mode = 0o644) => {
  const path = join(folder, name);
  writeFileSync(path, text, { mode });
  return path;
};

/** A kubeconfig of one context, all of whose parts have one name. JSON is YAML. */
const writeConfig = (name: string, user: object, cluster: object = {}) => {
  const part = { server: `https://${name}.example:6443`, ...cluster };
  const config = {
    'current-context': name,
    contexts: [{ name, context: { cluster: name, user: name } }],
    clusters: [{ name, cluster: part }],
    users: [{ name, user }],
  };
  return write(`${name}.conf`, JSON.stringify(config));
};

/** A plugin that notes each run, what it was told and its standard input, and then does this. */
const runs = join(folder, 'runs');
const writePlugin = (name: string, lines: string) =>
  write(name, `#!/bin/sh\necho "$1 $SECRET $KUBERNETES_EXEC_INFO" >>${runs}\n${lines}\n`, 0o755);
const listRuns = () => readFileSync(runs, { encoding: 'utf8', flag: 'a+' }).split('\n').slice(0, -1);
const apiVersion = 'client.authentication.k8s.io/v1';
const print = (status: object) =>
  `cat <<'END'\n${JSON.stringify({ kind: 'ExecCredential', apiVersion, status })}\nEND`;
const exec = (command: string, more: object = {}) => ({ exec: { apiVersion, command, ...more } });

const find = (more: Partial<PersonalSources> = {}) =>
  findPersonalAccess({
    ...{ kubeconfig: null, context: null, environment: {}, home: '/nonexistent' },
    ...{ now: () => new Date(0), ...more },
  });
test('credentials are found as kubectl finds them: by the flag, in the merged files, at home', async () => {
  const [first = '', second = ''] = ['first', 'second'].map((name) => writeConfig(name, { token: name }));
  const home = join(folder, 'home');
  mkdirSync(join(home, '.kube'), { recursive: true });
  copyFileSync(second, join(home, '.kube/config'));
  // Both have the user of the first.
  const twice = write(
    'twice.conf',
    readFileSync(first, 'utf8').replace('"token":"first"', '"token":"twice"'),
  );
  const ask = async (list: string, more: Partial<PersonalSources> = {}) =>
    (await find({ environment: { KUBECONFIG: list }, ...more })()).headers['Authorization'];
  expect(await ask(`/nonexistent::${first}:${second}`)).toBe('Bearer first');
  expect(await ask(`${first}:${second}`, { context: 'second' })).toBe('Bearer second');
  expect(await ask(`${first}:/nonexistent`, { kubeconfig: second })).toBe('Bearer second');
  expect(await ask(`${twice}:${first}`)).toBe('Bearer twice');
  expect(await ask('', { home })).toBe('Bearer second');
  write('token', 'of a file\n');
  const withFile = writeConfig('third', { token: 'old', tokenFile: 'token' });
  expect(await ask(withFile)).toBe('Bearer of a file');
  const broken = write('broken', '{clusters: [{name: x}], users: [null], contexts: [{name: y}]}');
  expect(await ask(`${write('empty', '')}:${broken}:${second}`)).toBe('Bearer second');
  const route = findClusterRoute({ kubeconfig: first }, null, new FakeClock());
  expect([(await route.choose()).server, route.count]).toEqual([{ host: 'first.example', port: 6443 }, 1]);
});

const link = (name: string) => {
  symlinkSync(name, join(folder, name));
  return join(folder, name);
};
const withUser = (user: object) => ({ kubeconfig: writeConfig('a', user) });
const withPlugin = (lines: string) => withUser(exec(writePlugin('p', lines)));
const faults: Readonly<Record<string, () => Partial<PersonalSources>>> = {
  nothing: () => ({}),
  'no file': () => ({ environment: { KUBECONFIG: '/a:/b:/' } }),
  'a circle of links': () => ({ environment: { KUBECONFIG: link('circle') } }),
  'a token of two lines': () => withUser({ token: 'a\nb' }),
  'no program': () => withUser(exec('')),
  'no context': () => ({ ...withUser({}), context: 'prod' }),
  'an auth-provider': () => withUser({ 'auth-provider': { name: 'oidc' } }),
  'a SOCKS proxy': () => ({ kubeconfig: writeConfig('a', {}, { 'proxy-url': 'socks5://p' }) }),
  'one damaged file': () => ({
    environment: { KUBECONFIG: `${writeConfig('a', {})}:${write('bad', 'a: b: c')}` },
  }),
  'groups of nobody': () => withUser({ 'as-groups': ['ops'] }),
  'no plugin': () => withUser(exec('no-such-plugin', { installHint: 'Get it from IT.' })),
  'a failing plugin': () => withPlugin('exit 3'),
  'a plugin and its child that hang': () => ({ pluginMs: 100, ...withPlugin('sleep 1000') }),
  'a plugin without a token': () => withPlugin(print({})),
  'a plugin that needs a terminal': () => withUser(exec('p', { interactiveMode: 'Always' })),
};

test.each(
  readTable(`
    nothing           | --kubeconfig is not given, KUBECONFIG is empty, and there is no file /nonexistent/.kube/config
    no file           | KUBECONFIG is /a:/b:/, and none of its files exists
    a circle of links | circle cannot be read (ELOOP)
    a token of two lines | a.conf cannot be used: Invalid character in header content ["Authorization"]
    no program        | exec of its user a is not as kubectl defines it
    no context        | a.conf cannot be used: they have no context prod. Name one with --context. Contexts: a
    an auth-provider  | its user has the auth-provider oidc. Use a plugin
    a SOCKS proxy     | its cluster is behind a SOCKS proxy
    one damaged file  | bad cannot be used: it is not a kubeconfig in YAML
    groups of nobody  | its user a has as-…, and not as
    no plugin         | the program no-such-plugin of its user a is not installed. Get it from IT.
    a failing plugin  | p of its user a failed (exit status 3). It said why
    a plugin and its child that hang | p of its user a did not end within 0.1 s
    a plugin without a token | p of its user a printed no ExecCredential of ${apiVersion} with
    a plugin that needs a terminal | the program p of its user a needs a terminal`),
)('%s is one error, which names the cause', async (fault, message) => {
  const asked = Promise.resolve().then(() => {
    const route = new ApiRoute(find(faults[fault]?.()), [], null);
    return findSystemNamespace(route, new FakeClock(), null);
  });
  await expect(asked).rejects.toMatchObject({ code: 'API_CREDENTIALS_INVALID' });
  await expect(asked).rejects.toThrow(message);
});

test('a plugin runs once until its token expires, and knows what it is told', async () => {
  rmSync(runs, { force: true });
  const expirationTimestamp = '2026-01-01T00:00:00Z';
  writePlugin('login', print({ token: 'a', expirationTimestamp }));
  const more = { args: ['in'], env: [{ name: 'SECRET', value: 's' }], provideClusterInfo: true };
  let now = new Date('2025-12-31T23:59:59Z');
  const access = find({ ...withUser(exec('./login', more)), now: () => now });
  const [one] = [...(await Promise.all([access(), access()])), await access()];
  expect(one.headers).toEqual({ Authorization: 'Bearer a' });
  const [run = '', ...others] = listRuns();
  expect(others).toEqual([]);
  expect(run.slice(0, 5)).toBe('in s ');
  expect(JSON.parse(run.slice(5))).toMatchObject({
    ...{ kind: 'ExecCredential', apiVersion },
    spec: { interactive: false, cluster: { server: 'https://a.example:6443' } },
  });
  now = new Date(expirationTimestamp);
  await access();
  expect(listRuns()).toHaveLength(2);
});

/** An API that may be asked for these, and how to get there. */
async function startApi() {
  const path = '/api/v1/namespaces/default/services';
  const Service = { apiVersion: 'v1', path, allPath: '/api/v1/services' };
  const group = '/apis/coordination.k8s.io/v1';
  const own = `${group}/namespaces/vipnat-system/leases`;
  const Lease = { apiVersion: 'coordination.k8s.io/v1', path: own, allPath: `${group}/leases` };
  const questions = { ...controllerQuestions, Service, Lease };
  const server = await KubeApi.start({ pair: certificates().serving('m1'), questions });
  server.allowsAll = true;
  return { server, route: routeTo(certificates().authority, [`127.0.0.1:${server.port}`]) };
}

test('a command asks the API of a context of two files, logs in once, and goes through a proxy', async () => {
  rmSync(runs, { force: true });
  const { server } = await startApi();
  const proxied = new Set<string>();
  const proxy = createServer().on('connect', ({ url = '' }, client: Socket) => {
    proxied.add(url);
    const upstream = connect(server.port, '127.0.0.1', () => {
      client.write('HTTP/1.1 200 OK\r\n\r\n');
    });
    pipeline(client, upstream, client, () => undefined);
  });
  await once(proxy.listen(0, '127.0.0.1'), 'listening');
  const authority = { 'certificate-authority': certificates().authority };
  const cluster = { server: `https://127.0.0.1:${server.port}`, ...authority };
  const byProxy = { ...cluster, 'proxy-url': `http://127.0.0.1:${(proxy.address() as AddressInfo).port}` };
  const prod = writeConfig('prod', exec(writePlugin('good', print({ token: 'a token' }))), cluster);
  const test = writeConfig('test', exec(writePlugin('wrong', print({ token: 'another' }))), byProxy);
  process.env['KUBECONFIG'] = `${test}:${prod}`;
  try {
    const seats = await runHere(['seats', '--context', 'prod', '-o', 'json']);
    expect(seats).toEqual({ exitCode: 2, stdout: expect.stringContaining('"seats": []'), stderr: '' });
    expect([listRuns().length, proxied.size]).toEqual([1, 0]);
    const { exitCode, stderr } = await runHere(['services']);
    expect([exitCode, stderr]).toEqual([
      1,
      expect.stringMatching(/API_FORBIDDEN.*401.*still valid .*test\.conf/),
    ]);
    expect([...proxied]).toEqual([`127.0.0.1:${server.port}`]);
  } finally {
    delete process.env['KUBECONFIG'];
    proxy.close();
    await server.stop();
  }
});

test('a question goes below the path of the server, as whom the kubeconfig says, and 401 logs in again', async () => {
  rmSync(runs, { force: true });
  const pair = certificates().serving('m1');
  const [cert, key] = [readFileSync(pair.certificate), readFileSync(pair.key)];
  const asked: object[] = [];
  const server = createSecureServer({ cert, key }, ({ url, headersDistinct }, response) => {
    asked.push({ url, ...headersDistinct });
    response.writeHead(401).end();
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const place = `https://127.0.0.1:${(server.address() as AddressInfo).port}/k8s/clusters/c-1/`;
  const cluster = { server: place, 'certificate-authority': certificates().authority };
  const extra = { 'as-uid': '7', 'as-groups': ['dev', 'ops'], 'as-user-extra': { 'a/b': ['1'] } };
  const login = exec(writePlugin('good', print({ token: 'a' })));
  const kubeconfig = writeConfig('rancher', { as: 'jane', ...extra, ...login }, cluster);
  const route = findClusterRoute({ kubeconfig }, null, new FakeClock());
  const find = () => findSystemNamespace(route, new FakeClock(), null);
  await find()
    .then(find)
    .finally(() => server.close());
  const groups = { 'impersonate-group': ['dev', 'ops'], 'impersonate-extra-a%2fb': ['1'] };
  const jane = { 'impersonate-user': ['jane'], 'impersonate-uid': ['7'], ...groups };
  const url = expect.stringMatching(/^\/k8s\/clusters\/c-1\/apis\/coord/);
  const question = { url, authorization: ['Bearer a'], ...jane };
  expect(asked).toMatchObject([question, question]);
  expect(listRuns()).toHaveLength(2);
});

test.each([
  ['the given one', 'lb', ['a'], 'lb'],
  ['that of the only controller', null, ['a'], 'a'],
  ['none without a controller', null, [], null],
  ['none where two have one', null, ['a', 'b'], null],
  ['none where Leases may not be listed', null, null, null],
])("the namespace of vipnat's own objects is %s", async (_, given, namespaces, found) => {
  const { server, route } = await startApi();
  for (const namespace of namespaces ?? [])
    server.store.put('Lease', { metadata: { name: electionLease, namespace } });
  server.forbids = namespaces === null ? 'Lease' : null;
  const asked = findSystemNamespace(route, new FakeClock(), given);
  expect(await asked.finally(() => server.stop())).toBe(found);
});

test('a Service that is not there is refused, with one that has a similar name', async () => {
  const { server, route } = await startApi();
  server.store.put('Service', makeLoadBalancer('web', [{ port: 80 }]));
  const api = createServicesApi(route, new FakeClock(), 'vipnat-system');
  const asked = api.find({ namespace: 'default', name: 'wbe' });
  const message = 'there is no Service default/wbe. Did you mean default/web?';
  await expect(asked.finally(() => server.stop())).rejects.toThrow(message);
});
