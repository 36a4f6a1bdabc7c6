import { useBalancerWorld } from '../../../support/api/balancer-world.ts';
import { makeLoadBalancer } from '../../../support/kube-api/service-objects.ts';
import type { BalancedFlow } from '../../../../lib/kernel/port.ts';
import { VipnatError } from '../../../../lib/errors.ts';
import type { PortBalance } from '../../../../balancer/services/backends.ts';
import { makePortBalance } from '../../../support/fakes/port-balance.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { ConnectionShares } from '../../../../balancer/table/shares.ts';
import { toFlows } from '../../../../balancer/table/stale-flows.ts';
import { describeFlow } from '../../../../lib/kernel/conntrack.ts';
import { describe, test, expect } from '@jest/globals';
import { renderPort } from '../../../../balancer/table/render.ts';
import { emptyTable } from '../../../../lib/nft/table.ts';

const pods = ['10.244.1.2', '10.244.2.2', '10.244.3.2'].map((address) => ({ address, port: 8080 }));

const makeLc = (more: Partial<PortBalance> = {}) => makePortBalance(pods, { method: 'lc', ...more });

function start() {
  const clock = new FakeClock();
  const changed: (readonly string[])[] = [];
  const shares = new ConnectionShares({ clock, onChange: (services) => changed.push(services) });
  /** A walk that sees so many connections of each pod. `meanwhile` comes before its end. */
  const count = async (balance: PortBalance, counts: readonly number[], meanwhile = () => undefined) => {
    await clock.advance(5000);
    const tally = shares.begin();
    for (const [at, flow] of toFlows(balance, balance.backends).entries())
      for (let left = counts[at] ?? 0; left > 0; left -= 1)
        tally?.see(describeFlow(flow), { ...flow, isOpen: true, isAnswered: true, isEstablished: true });
    meanwhile();
    tally?.end();
  };
  const read = (balance: PortBalance) => [...(shares.share(balance).parts?.values() ?? [])];
  return { clock, shares, changed, count, read };
}

test('a part is of the weight: twice the weight with twice the connections is as wanted', async () => {
  const { shares, count, read } = start();
  const backends = pods.map((pod, at) => ({ ...pod, weight: at === 0 ? 2 : 1 }));
  const balance = makeLc({ backends });
  shares.take('default/web', [balance]);
  await count(balance, [200, 100, 100]);
  expect(read(balance)).toEqual([1, 1, 1]);
  await count(balance, [100, 150, 150]);
  expect(read(balance)).toEqual([1.375, 0.625, 0.625]);
});

test('shares are also those of clients that keep their pod afterwards', async () => {
  const { shares, count } = start();
  const balance = makeLc({ affinitySeconds: 60 });
  shares.take('default/web', [balance]);
  await count(balance, [150, 150, 0]);
  const { sets } = renderPort(shares.share(balance), emptyTable);
  const slots = [...(sets.get('slots/default/web/tcp/80/kept')?.elements.values() ?? [])];
  const counts = pods.map(({ address }) => slots.filter((slot) => slot.includes(`/${address}/`)).length);
  expect(counts).toEqual([13, 12, 35]);
});

test('parts change by a tenth at least, but that even ones come as soon as chance explains the counts', async () => {
  const { shares, changed, count, read } = start();
  const balance = makeLc({ backends: pods.slice(0, 2) });
  shares.take('default/web', [balance]);
  await count(balance, [150, 50]);
  await count(balance, [148, 52]);
  expect([changed.length, read(balance)]).toEqual([1, [0.625, 1.375]]);
  await count(balance, [308, 252]);
  expect(read(balance)).toEqual([0.925, 1.075]);
  await count(balance, [281, 279]);
  expect(read(balance)).toEqual([1, 1]);
});

test('connections that have ended, and those of Services with another method, do not count', async () => {
  const { clock, shares, read } = start();
  const balance = makeLc();
  shares.take('default/web', [balance]);
  await clock.advance(5000);
  const tally = shares.begin();
  const [flow] = toFlows(balance, balance.backends);
  for (let left = 100; left > 0 && flow !== undefined; left -= 1)
    tally?.see(describeFlow(flow), { ...flow, isOpen: false, isAnswered: true, isEstablished: false });
  tally?.end();
  expect(read(balance)).toEqual([1, 1, 1]);
  shares.take('default/web', [makeLc({ method: 'random' })]);
  expect([shares.isAny, shares.begin()]).toEqual([false, null]);
});

test('a Service that changes during a count keeps its parts: half of it was not seen', async () => {
  const { shares, count, read } = start();
  const balance = makeLc();
  shares.take('default/web', [balance]);
  await count(balance, [150, 150, 0]);
  expect(read(balance)).toEqual([0.625, 0.625, 1.75]);
  await count(balance, [150, 150, 0], () => {
    shares.take('default/web', [balance]);
    return undefined;
  });
  expect(read(balance)).toEqual([0.625, 0.625, 1.75]);
  // Who is not there any more is forgotten.
  shares.take('default/web', [makeLc({ backends: pods.slice(0, 2) })]);
  expect([...(shares.share(balance).parts?.keys() ?? [])]).toEqual([
    '10.244.1.2 . 8080',
    '10.244.2.2 . 8080',
  ]);
});

test('a port that another Service gets is counted for that one, whichever is told first', async () => {
  const { shares, count, read } = start();
  const [former, next] = [makeLc(), makeLc({ service: 'default/next' })];
  shares.take('default/web', [former]);
  shares.take('default/next', [next]);
  shares.take('default/web', []);
  await count(next, [150, 150, 0]);
  expect(read(next)).toEqual([0.625, 0.625, 1.75]);
});

test('after a count a hundred endpoints get other shares, and those of other Services after the next ones', async () => {
  const { clock, shares, changed } = start();
  const balances = Array.from({ length: 80 }, (_, at) =>
    makeLc({ service: `default/web${at}`, addresses: [`10.0.9.${at + 1}`] }),
  );
  for (const balance of balances) shares.take(balance.service, [balance]);
  const flows = balances.flatMap((balance) => toFlows(balance, balance.backends.slice(0, 2)));
  for (let round = 0; round < 3; round += 1) {
    await clock.advance(5000);
    const tally = shares.begin();
    for (const flow of flows)
      for (let left = 150; left > 0; left -= 1)
        tally?.see(describeFlow(flow), { ...flow, isOpen: true, isAnswered: true, isEstablished: true });
    tally?.end();
  }
  expect(changed.map(({ length }) => length)).toEqual([34, 34, 12]);
  expect(new Set(changed.flat()).size).toBe(80);
});

test('a count begins five seconds after the one before, and not where there is no choice', async () => {
  const { clock, shares } = start();
  shares.take('default/web', [makeLc({ backends: pods.slice(0, 1) }), makeLc({ isHere: false, port: 81 })]);
  expect([shares.isAny, shares.begin()]).toEqual([false, null]);
  shares.take('default/web', [makeLc()]);
  expect(shares.begin()).not.toBeNull();
  await clock.advance(4999);
  expect(shares.begin()).toBeNull();
  await clock.advance(1);
  expect(shares.begin()).not.toBeNull();
});

/** The method in the balancer as a whole: an API on a local socket, a kernel in memory, and a clock that stands still. */
const addresses = ['10.244.1.2', '10.244.2.2', '10.244.3.2'] as const;
const slotsOfWeb = 'slots/default/web/tcp/80';

const world = useBalancerWorld(async () => {
  world().api.store.put(
    'Service',
    makeLoadBalancer('web', [{ port: 80 }], { annotations: { 'vipnat.io/method': 'lc' } }),
  );
  world().list('web', ...addresses);
  open(150, 150, 0);
  await begin();
});

async function begin(): Promise<void> {
  world().startBalancer();
  await world().untilPrinted(/10\.77\.0\.61[\s\S]*10\.244\.3\.2/);
}

/** From now on, the pods have so many open connections. */
function open(...counts: readonly number[]): void {
  world().connections = addresses.flatMap((address, at) =>
    Array.from({ length: counts[at] ?? 0 }, (): BalancedFlow => ({
      protocol: 'tcp',
      vip: { family: 'ipv4', address: '10.77.0.60', port: 80 },
      backend: { family: 'ipv4', address, port: 8080 },
    })),
  );
}

/** How many slots each pod has. */
async function readSlots(): Promise<number[]> {
  const [, text = ''] = new RegExp(`map ${slotsOfWeb} \\{([^]*?)\\n\\t\\}`).exec(await world().print()) ?? [];
  return addresses.map((pod) => text.split(` : ${pod} . 8080`).length - 1);
}

/** The sets of which elements were changed, from the first one on. */
function listChanged(from = 0): string[] {
  const { changes } = world().kernel;
  return changes.slice(from).map(({ set }) => set);
}

const even = [20, 20, 20];
const uneven = [13, 12, 35];

describe('a Service with the method lc', () => {
  test('gives a pod with few connections more new ones until it has as many, and writes nothing else', async () => {
    const { lists } = world();
    const scripts = world().listScripts(0, 'chain').length;
    await world().pass(10);
    expect(await readSlots()).toEqual(uneven);
    open(150, 150, 140);
    await world().pass(10);
    expect(await readSlots()).toEqual(even);
    const written = listChanged();
    expect([...new Set(written)]).toEqual([slotsOfWeb]);
    open(150, 160, 140);
    await world().pass(120);
    expect(listChanged()).toEqual(written);
    // No rule is changed, and no table listed.
    expect(world().listScripts(0, 'chain')).toHaveLength(scripts);
    expect(world().lists).toBe(lists);
    expect(world().readLog('info', 'default/web is balanced')).toEqual([
      'default/web is balanced: 10.77.0.60:80 TCP to 3 endpoints',
      'default/web is balanced: 10.77.0.60:80 TCP to 3 endpoints, more to endpoints with fewer open connections',
      'default/web is balanced: 10.77.0.60:80 TCP to 3 endpoints',
    ]);
  });

  test('keeps its shares when the balancer starts again, as long as nothing else was counted', async () => {
    await world().pass(10);
    await world().stopBalancer();
    world().walkFailure = new VipnatError('NETLINK_FAILED', 'the kernel is busy');
    const from = world().kernel.changes.length;
    const before = world().kernel.scripts.length;
    await begin();
    await world().pass(10);
    expect(await readSlots()).toEqual(uneven);
    expect(listChanged(from)).toEqual([]);
    expect(world().listScripts(before, 'slots')).toEqual([]);
    // A pod that comes gets an even part, whatever the others have.
    world().list('web', ...addresses, '10.244.4.2');
    await world().untilPrinted(/10\.244\.4\.2/);
    expect(await readSlots()).toEqual(uneven);
    world().walkFailure = null;
    open(0, 0, 0);
    await world().pass(20);
    expect(await readSlots()).toEqual(even);
  });

  test('keeps its shares while two counts fail, and gives all pods the same after three', async () => {
    await world().pass(10);
    world().walkFailure = new VipnatError('NETLINK_FAILED', 'the kernel is busy');
    await world().pass(10);
    expect(await readSlots()).toEqual(uneven);
    await world().pass(20);
    expect(await readSlots()).toEqual(even);
    world().walkFailure = null;
    await world().pass(20);
    expect(await readSlots()).toEqual(uneven);
  });

  test('with another method has one slot for each pod, and is not counted any more', async () => {
    await world().pass(10);
    world().api.store.put('Service', makeLoadBalancer('web', [{ port: 80 }]));
    await world().until(async () => (await readSlots()).every((count) => count === 1), 'one slot for each');
    const from = world().kernel.changes.length;
    await world().pass(60);
    expect(listChanged(from)).toEqual([]);
  });
});
