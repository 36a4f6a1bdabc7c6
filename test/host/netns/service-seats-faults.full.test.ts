import { expect, jest, test } from '@jest/globals';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { limitMs, sleep, waitUntil } from '../../support/host/vipnat.ts';
import { makePool } from '../../support/fakes/seat-objects.ts';
import { anchors, give, pool, seats, useSeatNetwork } from './seat-network.ts';

jest.setTimeout(3 * limitMs);

const network = useSeatNetwork();

/** Each at another moment of what a change begins. */
const rounds = 12;

const say = (text: string) => process.stderr.write(`service-seats-faults.test.ts: ${text}\n`);

test.each([1, 1000])('a cut-off holder of %d addresses is followed, and back, gives up', async (count) => {
  const addresses = Array.from({ length: count }, (_, at) => `fd77::1:${(at + 1).toString(16)}`);
  await network.startWith(give(...addresses));
  const last = addresses.at(-1) ?? '';
  await network.waitForOneHolder(last);
  const holder = await network.findHolder(last);
  const startedAt = performance.now();
  await network.setCable(holder, false);
  await waitUntil(
    async () => (await network.listHolders(last)).some((name) => name !== holder.name),
    'nobody takes over',
  );
  say(`${count} addresses moved ${Math.round(performance.now() - startedAt)} ms after the cut`);
  await network.setCable(holder, true);
  await network.waitForOneHolder(...anchors, last);
});

test('what a killed keepalived leaves on the interface goes, also an address that was given back meanwhile', async () => {
  await network.start(give('10.77.0.60', '10.77.0.61'));
  await network.waitForOneHolder('10.77.0.60', '10.77.0.61');
  const holder = await network.findHolder('10.77.0.60');
  await holder.killKeepalived();
  await waitUntil(async () => (await network.listHolders(anchors[0])).length === 2, 'nobody takes over');
  network.update({ pools: [pool], virtualIps: give('10.77.0.61') });
  await waitUntil(
    async () => (await network.listHolders('10.77.0.60')).join() === holder.name,
    'not only the dead one has 10.77.0.60',
  );
  await holder.startKeepalived();
  await network.waitForOneHolder(...anchors, '10.77.0.61');
  expect(await network.listHolders('10.77.0.60')).toEqual([]);
  await waitUntil(
    () => !readFileSync(holder.locate('keepalived.conf'), 'utf8').includes('10.77.0.60'),
    'the address stays in the file',
  );
});

test('a node whose balancer has stopped gives its seats up, if a Service needs it; where all have, seats are held again, also where nobody sees the script', async () => {
  await network.start(give('10.77.0.60'));
  for (const node of network.nodes) node.order({ needsBalancer: true });
  const holder = await network.findHolder(anchors[0]);
  await waitUntil(() => readFileSync(holder.locate('beat'), 'utf8').endsWith(' 1\n'), 'nothing is needed');
  holder.stopSeats();
  await waitUntil(
    async () => (await network.listHolders('10.77.0.60')).every((name) => name !== holder.name),
    'a node without a balancer keeps its seats',
  );
  await network.waitForOneHolder(...anchors, '10.77.0.60');
  await Promise.all(network.nodes.map((node) => node.killSeats()));
  await sleep(60_000);
  await network.waitForOneHolder(...anchors, '10.77.0.60');
  const before = network.countTransitions();
  for (const node of network.nodes) rmSync(node.locate('check-balancer'));
  await sleep(15_000);
  expect(network.countTransitions()).toEqual(before);
});

test('all addresses are announced again each garpInterval, of both families, in bursts of 1,000 packets at most', async () => {
  const addresses = Array.from({ length: 500 }, (_, at) =>
    at < 150 ? `10.77.0.${at + 100}` : `fd77::1:${at}`,
  );
  const often = makePool('default', seats, { garpInterval: '10s' });
  for (const node of network.nodes) node.startSeats();
  network.update({ pools: [often], virtualIps: give(...addresses) });
  const heard = network.client.shell(
    "timeout -s INT 60 tcpdump -nn -tt -l -i eth0 'arp or (icmp6 and ip6[40] == 136)' 2>/dev/null || true",
  );
  await Promise.all(network.nodes.map((node) => node.startKeepalived()));
  const all = [...(await heard).matchAll(/^(\d+)\.\d+ .*(?:Request who-has|tgt is) ([^\s,]+)/gm)];
  const lines = all.filter(([, , address = '']) => addresses.includes(address));
  const times = Map.groupBy(lines, ([, , address = '']) => address);
  const isOften = (one: string) => new Set(times.get(one)?.map(([, second]) => second)).size >= 4;
  expect(addresses.filter((one) => !isOften(one))).toEqual([]);
  const perSecond = Map.groupBy(lines, ([, second]) => second);
  expect(Math.max(...[...perSecond.values()].map(({ length }) => length))).toBeLessThanOrEqual(1000);
});

test('an address that another host on the network has is not taken, and told', async () => {
  await network.start(give('10.77.0.60', 'fd77::60'));
  await network.client.shell('ip addr add 10.77.0.70/32 dev eth0; ip addr add fd77::70/128 dev eth0 nodad');
  network.update({ pools: [pool], virtualIps: give('10.77.0.60', '10.77.0.70', 'fd77::70', '10.77.0.71') });
  await network.waitForOneHolder('10.77.0.71');
  const holder = await network.findHolder(anchors[0]);
  const inUse = () => holder.told.findLast(({ state }) => state !== undefined)?.state?.inUse.join();
  await waitUntil(
    () => inUse() === '10.77.0.70,fd77::70',
    () => `it says that others have ${inUse()}`,
  );
  expect(await network.listHolders('10.77.0.70')).toEqual([]);
  expect(await network.listHolders('fd77::70')).toEqual([]);
  for (const node of network.nodes.filter((one) => one !== holder))
    expect(node.told.flatMap(({ state }) => state?.inUse ?? [])).toEqual([]);
});

test('an address that another host takes later is told, and given up once the API says so; one that a node of ours has, too, is not', async () => {
  await network.start(give('10.77.0.60', '10.77.0.61'));
  const holder = await network.findHolder(anchors[0]);
  const other = network.nodes.find((one) => one !== holder);
  await network.client.shell('ip addr add 10.77.0.60/32 dev eth0');
  // As of a killed keepalived: it leaves the anchor, too.
  await other?.shell(`ip addr add ${anchors[0]}/32 dev lo; ip addr add 10.77.0.61/32 dev eth0`);
  const inUse = () => holder.told.findLast(({ state }) => state !== undefined)?.state?.inUse ?? [];
  // The first question comes a minute after the address.
  await sleep(60_000);
  await waitUntil(() => inUse().length > 0, 'nothing is told');
  expect(inUse()).toEqual(['10.77.0.60']);
  expect(await holder.listAddresses()).toContain('10.77.0.60');
  network.update({ pools: [pool], virtualIps: give('10.77.0.61') });
  await waitUntil(async () => !(await holder.listAddresses()).includes('10.77.0.60'), 'it keeps the address');
  expect(await holder.listAddresses()).toContain('10.77.0.61');
});

test('whenever the balancer is killed, the next one finishes what it had begun, and no seat moves', async () => {
  await network.start(give('10.77.0.60'));
  const holder = await network.findHolder(anchors[0]);
  const before = network.countTransitions();
  for (let round = 0; round < rounds; round += 1) {
    const [address, gone] = round % 2 === 0 ? ['10.77.0.61', '10.77.0.60'] : ['10.77.0.60', '10.77.0.61'];
    holder.order({ input: { pools: [pool], virtualIps: give(address) } });
    await sleep((round * 900) / rounds);
    await holder.killSeats();
    holder.startSeats();
    holder.order({ input: { pools: [pool], virtualIps: give(address) } });
    await waitUntil(async () => {
      const there = await holder.listAddresses();
      return there.includes(address) && !there.includes(gone);
    }, `in round ${round} ${holder.name} does not have ${address} for ${gone}`);
  }
  expect(network.countTransitions()).toEqual(before);
  expect(existsSync(holder.locate('keepalived.conf.refused'))).toBe(false);
});
