import { makeFolder } from '../../../support/network/own-folder.ts';
import { join } from 'node:path';
import { writeFileSync } from 'node:fs';
import { readConfig } from '../../../../config/load.ts';
import { createServicesApi, findClusterRoute, findSystemNamespace } from '../../../../cli/services/read.ts';
import { test, expect } from '@jest/globals';
import { useCertificates, routeTo } from '../../../support/api/api-world.ts';
import { KubeApi } from '../../../support/kube-api/kube-api.ts';
import { controllerQuestions } from '../../../support/kube-api/service-questions.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { electionLease } from '../../../../lib/api/vipnat.ts';
import { makeLoadBalancer } from '../../../support/kube-api/service-objects.ts';

const folder = makeFolder('kubeconfig');
const makeFile = (name: string) => {
  const path = join(folder, name);
  const text = `{clusters: [{name: a, cluster: {server: 'https://${name}:6443'}}], users: [{name: a, user: {token: t}}],
    contexts: [{name: a, context: {cluster: a, user: a}}], current-context: a}`;
  writeFileSync(path, text);
  return path;
};
const [first, second] = [makeFile('first.example'), makeFile('second.example')];
const missing = join(folder, 'missing');

const findServer = async (KUBECONFIG: string | undefined, kubeconfig: string | null = null) => {
  const { config: base } = await readConfig({ flags: {}, environment: {}, file: undefined });
  const config = { ...base, kubeconfig };
  return (await findClusterRoute(config, 'services', { KUBECONFIG }).choose()).access.host;
};

test('KUBECONFIG names the credentials: the first file of its list that exists, after --kubeconfig', async () => {
  expect(await findServer(first)).toBe('first.example');
  expect(await findServer(`${missing}::${second}:${first}`)).toBe('second.example');
  expect(await findServer(first, second)).toBe('second.example');
  expect(await findServer(missing, second)).toBe('second.example');
});

test('a list without a file that exists is an error that names it, and an empty one counts as none', async () => {
  const asked = findServer('/a:/b.conf:/');
  await expect(asked).rejects.toMatchObject({ code: 'API_CREDENTIALS_INVALID' });
  await expect(asked).rejects.toThrow('KUBECONFIG is /a:/b.conf');
  await expect(findServer('')).rejects.toThrow('has no credentials for it. Example: vipnat services');
});

const certificates = useCertificates();

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
