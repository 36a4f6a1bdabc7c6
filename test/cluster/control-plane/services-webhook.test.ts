/** The webhook of real controllers, asked by a real kube-apiserver. LAB_KUBERNETES=1.33.13 has one without the policy. */
import { jest, test, expect } from '@jest/globals';
import { namespace, stepsMs, useServicesWorld } from './services-world.ts';
import { webhookName } from '../../../lib/api/vipnat.ts';
import { testInjection, admit } from './services-injection.ts';
import { testMesh } from './services-mesh.ts';
import { waitFor } from '../../support/lab/kube-proxy-state.ts';
import { expectUsed } from './services-rights-used.ts';
import { tell } from '../../support/lab/test-lab.ts';

jest.setTimeout(120_000);

const secretsPath = `/api/v1/namespaces/${namespace}/secrets`;
const configurationPath = `/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/${webhookName}`;

/** A new certificate is trusted for half a minute before it is served. */
const renewalMs = 90_000;

const world = useServicesWorld(['c1', 'c2'], 'webhook');

testInjection(world);
testMesh(world);

interface Configuration {
  readonly webhooks: readonly { readonly clientConfig: { readonly caBundle?: string } }[];
}

async function readConfiguration(): Promise<Configuration> {
  const { object } = await world().api.ask({ method: 'GET', path: configurationPath });
  return object as unknown as Configuration;
}

async function readTrusted(): Promise<string> {
  const { webhooks } = await readConfiguration();
  return Buffer.from(webhooks[0]?.clientConfig.caBundle ?? '', 'base64').toString();
}

async function readData(): Promise<Readonly<Record<string, string>>> {
  const { object } = await world().api.ask({ method: 'GET', path: `${secretsPath}/${webhookName}` });
  return (object['data'] ?? {}) as Record<string, string>;
}

const isServed = async () => {
  const data = await readData();
  return data['tls.crt'] !== undefined && data['next.crt'] === undefined;
};

test('what is trusted stays trusted where the configuration is replaced without it', async () => {
  await waitFor(isServed, renewalMs);
  const before = await readTrusted();
  const { webhooks, ...rest } = await readConfiguration();
  const clientConfig = { ...webhooks[0]?.clientConfig, caBundle: null };
  const object = { ...rest, webhooks: [{ ...webhooks[0], clientConfig }] };
  const { code } = await world().api.ask({ method: 'PUT', path: configurationPath, object });
  expect(code).toBe(200);
  await waitFor(async () => (await readTrusted()) === before, stepsMs);
  await waitFor(async () => (await admit(world(), {})).gates.length > 0, stepsMs);
});

test('a Secret that is deleted is made anew, and each pod gets its gate meanwhile', async () => {
  await waitFor(isServed, renewalMs);
  const before = await readTrusted();
  await world().api.ask({ method: 'DELETE', path: `${secretsPath}/${webhookName}` });
  const counts: number[] = [];
  await waitFor(async () => {
    counts.push((await admit(world(), {})).gates.length);
    return await isServed();
  }, renewalMs);
  expect(new Set(counts)).toEqual(new Set([1]));
  expect(await readTrusted()).toContain(before);
  expect((await admit(world(), {})).gates).toHaveLength(1);
});

test('the controller may create no other Secret, and has used each right that is printed', async () => {
  const annotations = { 'kubernetes.io/service-account.name': 'vipnat-balancer' };
  const metadata = { name: 'other', annotations };
  for (const object of [
    { metadata: { name: 'other' } },
    { metadata, type: 'kubernetes.io/service-account-token' },
    { metadata: { ...metadata, name: webhookName }, type: 'kubernetes.io/service-account-token' },
  ]) {
    const answer = await world().api.ask({ method: 'POST', path: secretsPath, object, token: world().token });
    expect(answer.object.message).toMatch(/may write only the webhook's Secret/);
  }
  const { code } = await world().api.ask({ method: 'GET', path: secretsPath, token: world().token });
  expect(code).toBe(403);
  await expectUsed(world(), 'vipnat-controller', webhookName);
});

test('with a controller that hangs, or without any, pods are made as they were', async () => {
  const time = async () => {
    const from = performance.now();
    const { gates } = await admit(world(), {});
    return { gates, ms: performance.now() - from };
  };
  const [first] = world().controllers.values();
  first?.kill('SIGSTOP');
  const hanging = await time();
  first?.kill('SIGCONT');
  await waitFor(async () => (await admit(world(), {})).gates.length > 0, stepsMs);
  const answered = await time();
  for (const controller of world().controllers.values()) controller.kill('SIGKILL');
  for (const controller of world().controllers.values()) await controller;
  const without = await time();
  expect([hanging.gates, answered.gates.length, without.gates]).toEqual([[], 1, []]);
  const [ms1, ms2, ms3] = [hanging, answered, without].map(({ ms }) => ms.toFixed(0));
  tell(
    `a pod took ${ms1} ms beside a controller that hangs, ${ms2} ms with an answer, ${ms3} ms without a controller`,
  );
});
