import type { Lab } from '../../../tools/lab/control-plane/lab.ts';
import { type Rule, printOn, apply, requestToken, listRights, formatRule } from './apply.ts';
import { beforeAll, test, expect } from '@jest/globals';
import { parse } from '../../support/manifest/printing.ts';
import { endpointSlices, services } from '../../../agent/api.ts';
import type { ApiQuestion } from '../../../tools/lab/control-plane/api.ts';

/** Tests of what the account of the printed DaemonSet may ask a real apiserver. */
export function testServiceAccount(lab: () => Lab): void {
  const metadata = { name: 'x', namespace: 'kube-system' };
  const account = { apiVersion: 'v1', kind: 'ServiceAccount', metadata };
  let rules: readonly Rule[];
  let token: string;
  /** Of an account that nobody has given anything. */
  let otherToken: string;

  beforeAll(async () => {
    const objects = parse(await printOn(lab(), 'daemonset')).slice(0, -1);
    await apply(lab(), [...objects, account]);
    rules = objects.find(({ kind }) => kind === 'Role')?.['rules'] as Rule[];
    token = await requestToken(lab(), 'kube-system', 'vipnat');
    otherToken = await requestToken(lab(), 'kube-system', account.metadata.name);
  });

  test('has the rights of the role in the namespace default, none elsewhere, and beside them those of any account', async () => {
    const listMore = async (namespace: string) => {
      const common = await listRights(lab(), otherToken, namespace);
      return (await listRights(lab(), token, namespace)).filter((right) => !common.includes(right));
    };
    expect(rules.length).toBeGreaterThan(1);
    expect(await listMore('default')).toEqual(rules.map(formatRule).sort());
    expect(await listMore('kube-system')).toEqual([]);
  });

  const [slices, service] = [endpointSlices, services].map(({ path, selector }) => `${path}?${selector}`);
  const watch = '&watch=true&timeoutSeconds=1';

  test.each([slices, service, `${slices}${watch}`, `${service}${watch}`])(
    'may ask what the agent asks: %s',
    async (path = '') => {
      expect(await lab().api.ask({ method: 'GET', path, token })).toMatchObject({ code: 200 });
      expect(await lab().api.ask({ method: 'GET', path, token: otherToken })).toMatchObject({ code: 403 });
    },
  );

  const get = (path: string): ApiQuestion => ({ method: 'GET', path });
  const getCore = (path: string) => get(`/api/v1/${path}`);
  test.each([
    ...['secrets', 'namespaces/default/secrets', 'namespaces/kube-system/secrets'].map(getCore),
    ...['namespaces/kube-system/configmaps', 'nodes', 'pods', 'namespaces', 'services'].map(getCore),
    ...[services.path, `${services.path}?fieldSelector=metadata.name%3Dother`, endpointSlices.path].map(get),
    get(`${endpointSlices.path}?labelSelector=kubernetes.io/service-name%3Dkubernetes`),
    get(`${endpointSlices.path.replace('default', 'kube-system')}?${endpointSlices.selector}`),
    { method: 'DELETE', path: `${endpointSlices.path}/kubernetes` },
    { method: 'PUT', path: `${services.path}/kubernetes`, object: {} },
    { method: 'POST', path: endpointSlices.path, object: {} },
    { method: 'POST', path: '/api/v1/namespaces/kube-system/pods', object: {} },
    { method: 'POST', path: '/api/v1/namespaces/kube-system/serviceaccounts/x/token', object: {} },
  ] satisfies ApiQuestion[])('may not ask anything else: $method $path', async (question) => {
    const message: unknown = expect.stringContaining('serviceaccount:kube-system:vipnat');
    const refusal = { code: 403, object: { reason: 'Forbidden', message } };
    expect(await lab().api.ask({ ...question, token })).toMatchObject(refusal);
  });
}
