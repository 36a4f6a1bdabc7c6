import { jest, test, expect } from '@jest/globals';
import { limitMs } from '../../support/host/vipnat.ts';
import { useSeatNetwork, give, pool, anchors, seats } from './seat-network.ts';
import { type Seat, parseAnchor, toAnchor } from '../../../lib/api/vipnat.ts';
import { waitUntil, sleep } from '../../support/jest/waiting.ts';
import { makePool, makeVirtualIp } from '../../support/fakes/seat-objects.ts';
import { isFull } from '../../support/jest/extent.ts';
import { listAddresses } from '../../../lib/keepalived/read.ts';
import { readFileSync } from 'node:fs';

jest.setTimeout(2 * limitMs);

const network = useSeatNetwork();

/** What another cluster calls a seat of the same VRID. */
function toOther({ anchor, index }: Seat): Pick<Seat, 'anchor'> {
  const family = parseAnchor(anchor)?.address.family ?? 'ipv4';
  return { anchor: toAnchor(family, 101 + index) };
}

const say = (text: string) => process.stderr.write(`service-seats.test.ts: ${text}\n`);

test('seats that nobody uses are spread evenly, whichever node came first, and then stay where they are', async () => {
  await network.start([]);
  const [first, second, third] = network.nodes;
  expect([first?.held, second?.held, third?.held]).toEqual([
    ['default/0', 'default/3', 'default/4', 'default/7'],
    ['default/1', 'default/5'],
    ['default/2', 'default/6'],
  ]);
  const virtualIps = give('10.77.0.60', 'fd77::60');
  network.update({ pools: [pool], virtualIps, version: '7' });
  await waitUntil(() => first?.announced === '7', 'm1 does not say that it has the addresses');
  expect(await first?.listAddresses()).toEqual(
    [anchors[0], anchors[3], anchors[4], anchors[7], '10.77.0.60', 'fd77::60'].sort(),
  );
  const others = seats.map((seat) => ({ ...seat, nodes: seat.nodes.filter((name) => name !== 'm1') }));
  network.update({ pools: [makePool('default', others)], virtualIps });
  await waitUntil(async () => (await first?.listAddresses())?.length === 0, 'm1 keeps addresses');
  await waitUntil(() => first?.held.length === 0, 'm1 says that it holds seats');
  await network.waitForOneHolder(...anchors, '10.77.0.60');
  network.update({ pools: [pool], virtualIps });
  await waitUntil(
    async () => (await network.listHolders(anchors[3])).join() === 'm1',
    'the seat that nobody uses does not come back',
  );
  expect((await network.listHolders('10.77.0.60')).join()).not.toBe('m1');
});

test('nodes whose own addresses name no subnet hold addresses to whose network a route leads', async () => {
  for (const [at, node] of network.nodes.entries()) {
    const [ipv4, ipv6] = [`10.77.0.1${at + 1}`, `fd77::1${at + 1}`];
    await node.shell(`ip addr del ${ipv4}/24 dev eth0
        ip addr add ${ipv4}/32 dev eth0
        ip route add 10.77.0.0/24 dev eth0
        ip addr del ${ipv6}/64 dev eth0
        ip addr add ${ipv6}/128 dev eth0 nodad
        ip -6 route add fd77::/64 dev eth0`);
  }
  await network.start(give('10.77.0.60', 'fd77::60'));
});

test('only adverts have anchors, and a cluster with the same VRIDs and other anchors takes nothing', async () => {
  await network.start(give('10.77.0.60', 'fd77::60'));
  const heard = network.client.shell(
    "timeout -s INT 8 tcpdump -nn -l -i eth0 'not (ip proto 112 or ip6 proto 112)' 2>/dev/null || true",
  );
  const others = seats.map((seat) => ({ ...seat, ...toOther(seat), nodes: ['m3'] }));
  const input = {
    pools: [makePool('other', others)],
    virtualIps: [makeVirtualIp('10.77.0.70', 'other/0'), makeVirtualIp('fd77--70', 'other/4')],
  };
  const m3 = network.nodes.find(({ name }) => name === 'm3');
  m3?.order({ input });
  await network.waitForOneHolder(...anchors, ...others.map(({ anchor }) => anchor));
  await network.waitForOneHolder('10.77.0.60', 'fd77::60', '10.77.0.70', 'fd77::70');
  expect(await network.listHolders('10.77.0.70')).toEqual(['m3']);
  const text = await heard;
  await network.waitForOneHolder(...anchors, ...others.map(({ anchor }) => anchor));
  expect(text).toContain('10.77.0.70');
  expect(text).toContain('fd77::70');
  expect(text).not.toMatch(/169\.254\.0\.|fe80::[0-9a-f]{1,2}(?![0-9a-f:])/);
});

if (isFull)
  test('addresses come and go without a transition of any seat, also where one node has heard of one more', async () => {
    await network.start(give('10.77.0.60', 'fd77::60'));
    const before = network.countTransitions();
    network.update({ pools: [pool], virtualIps: give('10.77.0.60', 'fd77::60', '10.77.0.61') });
    await network.waitForOneHolder('10.77.0.61');
    network.update({ pools: [pool], virtualIps: give('10.77.0.61') });
    await waitUntil(
      async () =>
        (await network.listHolders('10.77.0.60')).length + (await network.listHolders('fd77::60')).length ===
        0,
      '10.77.0.60 does not leave',
    );
    const other = network.nodes.find(({ held }) => !held.includes('default/0'));
    other?.order({ input: { pools: [pool], virtualIps: give('10.77.0.61', '10.77.0.62') } });
    for (let look = 0; look < 10; look += 1) {
      await sleep(300);
      await network.waitForOneHolder(...anchors);
    }
    expect(listAddresses(readFileSync(other?.locate('keepalived.conf') ?? '', 'utf8'))).toContain(
      '10.77.0.62',
    );
    expect(network.countTransitions()).toEqual(before);
  });

test('a node that is left out of a seat hands it on', async () => {
  await network.start(give('10.77.0.60', 'fd77::60'));
  const holder = await network.findHolder(anchors[0]);
  const others = seats.map((seat) =>
    seat.index === 0 ? { ...seat, nodes: seat.nodes.filter((name) => name !== holder.name) } : seat,
  );
  const startedAt = performance.now();
  network.update({ pools: [makePool('default', others)], virtualIps: give('10.77.0.60') });
  await waitUntil(
    async () => (await network.listHolders(anchors[0])).some((name) => name !== holder.name),
    `${holder.name} keeps its seat`,
  );
  say(`a seat was handed on after ${Math.round(performance.now() - startedAt)} ms`);
  await network.waitForOneHolder(...anchors, '10.77.0.60');
  expect(await network.listHolders(anchors[3])).toEqual([holder.name]);
});
