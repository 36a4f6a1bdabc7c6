/** Early EndpointSlices from the API to the kernel and the node's Lease. */
import { useBalancerWorld } from '../../support/api/balancer-world.ts';
import { test, expect } from '@jest/globals';
import { makeEarlyEndpoints } from '../../support/kube-api/service-objects.ts';

const world = useBalancerWorld();

const ports = [{ port: 8080 }];

const programmed = () =>
  JSON.parse(world().lease?.metadata.annotations?.['vipnat.io/programmed'] ?? '{}') as Record<string, string>;

const listAwaited = () =>
  (world().view?.awaited ?? []).flatMap(({ kind, version }) => (kind === 'earlyslices' ? [version] : []));

test('an early endpoint is in the kernel, and the Lease says so within a second; weights have slots', async () => {
  world().startBalancer();
  await world().untilPrinted(/10\.77\.0\.60/);
  await world().until(() => programmed()['earlyslices'] !== undefined, 'a version is reported');
  const early = makeEarlyEndpoints('web', ports, ['10.244.3.3'], { '10.244.1.2': 3 });
  world().api.store.put('EndpointSlice', early);
  const { version } = world().api.store;
  await world().untilPrinted(/10\.244\.3\.3/);
  const begun = world().clock.now();
  await world().until(() => Number(programmed()['earlyslices']) >= version, 'the version is reported');
  expect(world().clock.now() - begun).toBeLessThan(1000);
  expect((await world().print()).match(/\d : 10\.244\.1\.2 \. 8080/g)).toHaveLength(3 + 1);
  expect(listAwaited()).toEqual([`${version}`]);
  world().list('web', '10.244.1.2', '10.244.3.3');
  await world().until(() => listAwaited().length === 0, 'nobody waits');
  // With policy Local a pod is its own node's first: that one, though in no pool, is as quick, and nobody else hastens.
  const conditions = { ready: false, serving: true };
  for (const nodeName of ['other', 'n1']) {
    const own = { addresses: ['10.244.4.4'], nodeName, conditions };
    world().api.store.put('EndpointSlice', makeEarlyEndpoints('web', ports, [own]));
    const asked = world().api.store.version;
    await world().pass(1);
    expect((await world().print()).includes('10.244.4.4')).toBe(nodeName === 'n1');
    expect(Number(programmed()['earlyslices']) >= asked).toBe(nodeName === 'n1');
  }
  // One that ends by the early word is waited for, too.
  const ending = { addresses: ['10.244.1.2'], conditions: { ...conditions, terminating: true } };
  world().api.store.put('EndpointSlice', makeEarlyEndpoints('web', ports, [ending]));
  await world().pass(1);
  expect(listAwaited()).toEqual([`${world().api.store.version}`]);
  expect(Number(programmed()['earlyslices'])).toBe(world().api.store.version);
});

test('who may not read early slices balances as Kubernetes says, and says so once', async () => {
  world().api.forbiddenLabel = 'vipnat.io/service-name';
  world().api.store.put('EndpointSlice', makeEarlyEndpoints('web', ports, ['10.244.3.3']));
  world().startBalancer();
  await world().untilPrinted(/10\.77\.0\.60/);
  await world().pass(30);
  expect(await world().print()).not.toContain('10.244.3.3');
  expect(world().readLog('warn')).toEqual([
    expect.stringMatching(/pods with a readiness gate or a weight are balanced as Kubernetes says/),
  ]);
  world().api.forbiddenLabel = null;
  // It was there before this process could read it, and Kubernetes' slices do not have it.
  world().list('web', '10.244.1.2', '10.244.4.4');
  await world().pass(30);
  expect(await world().print()).toContain('10.244.4.4');
});

test('while no controller leads, a pod gets connections as Kubernetes says, unless it calls nobody ready', async () => {
  world().list('web', '10.244.1.2');
  world().startBalancer();
  await world().untilPrinted(/10\.244\.1\.2/);
  world().api.store.put('EndpointSlice', makeEarlyEndpoints('web', ports, ['10.244.3.3']));
  await world().untilPrinted(/10\.244\.3\.3/);
  await world().pass(19);
  expect(await world().print()).toContain('10.244.3.3');
  await world().pass(12);
  expect(await world().print()).not.toContain('10.244.3.3');
  world().list('web');
  await world().untilPrinted(/10\.244\.3\.3/);
});
