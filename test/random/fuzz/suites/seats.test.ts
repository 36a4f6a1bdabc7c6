import { locateSeatFiles } from '../../../../lib/keepalived/write.ts';
import type { Random } from '../../../support/random/random.ts';
import { addressTexts, makeHostileText, edgeNumbers } from '../engine/hostile.ts';
import { testTarget } from '../engine/run.ts';
import { makeSeat, makePool, makeVirtualIp } from '../../../support/fakes/seat-objects.ts';
import { listSubnets, listAddresses } from '../../../../lib/keepalived/read.ts';
import { planSeats, renderSeats } from '../../../../balancer/seats/plan.ts';
import { insist } from '../engine/properties.ts';
import { mutateText } from '../engine/mutate.ts';
import { type Lease, parseNodeLease, readDrained } from '../../../../lib/api/node.ts';
import { isDeepStrictEqual } from 'node:util';

const files = locateSeatFiles('/run/vipnat-lb');
const own = ['10.77.0.11', 'fd77::11'];

const makeAddress = (random: Random) =>
  random.chance(60)
    ? random.pick(['10.77.0.50', '10.77.0.51', '10.77.0.255', 'fd77::50', 'fd77:0:0::51', ...own])
    : random.pick([...addressTexts, makeHostileText(random)]);

testTarget(
  'keepalived.conf of seats has no word that the API could put a line into, and no address of the host itself',
  {
    name: 'seats, rendered',
    cases: 10_000,
    make: (random) => ({
      node: random.chance(70) ? 'm1' : makeHostileText(random),
      device: random.chance(80) ? 'eth0' : makeHostileText(random),
      spec: {
        interface: random.pick(['auto', 'eth0', makeHostileText(random)]),
        advert: random.pick(['300ms', '1s', random.pick(edgeNumbers), makeHostileText(random)]),
        garpInterval: random.pick([null, '30s', random.pick(edgeNumbers), makeHostileText(random)]),
      },
      seats: [0, 1].map((index) => ({
        ...makeSeat(index, makeAddress(random), []),
        ...(random.chance(70)
          ? {}
          : { anchor: makeAddress(random), vrid: random.pick([0, 1, 0.5, 255, 256]) }),
      })),
      names: [0, 1, 2].map(() => makeAddress(random)),
    }),
    check: ({ node, device, spec, seats, names }) => {
      const subnets = listSubnets([
        { family: 'ipv4', address: own[0] ?? '', device, prefixLength: 24 },
        { family: 'ipv6', address: own[1] ?? '', device, prefixLength: 64 },
      ]);
      const pool = makePool(
        'default',
        seats.map((seat) => ({ ...seat, nodes: [node] })),
        spec,
      );
      const virtualIps = ['10.77.0.60', 'fd77--60'].map((name) => makeVirtualIp(name, 'default/0'));
      const foreign = names.map((name) => ({
        ...makeVirtualIp('10.77.0.61', 'default/1'),
        metadata: { name, uid: 'u', resourceVersion: '1', generation: 1 },
      }));
      const plan = planSeats({ pools: [pool], virtualIps: [...virtualIps, ...foreign] }, { node, subnets });
      const text = renderSeats(node, plan.seats, files);
      const bad = text
        .split('\n')
        .find((line) => !/^(?:# [ -~]*| {2}script "[\w/. ;'-]*"|[\w ./:-]*\{?|\s*\})$/.test(line));
      insist(!/(?:refresh|advert_int) NaN/.test(text), 'no number');
      insist(bad === undefined, `a line of no grammar: ${JSON.stringify(bad)}`);
      const held = listAddresses(text);
      insist(new Set(held).size === held.length, 'an address twice');
      insist(!own.some((address) => held.includes(address)), 'an address of the host itself');
    },
  },
);

const corpus = [
  '["default/0","default/1"]',
  '{"services":"120","virtualips":"99"}',
  'direct',
  'w1,w2/0',
  '[]',
];

testTarget('what people and nodes write into annotations is read, or says nothing', {
  name: 'annotations of pools and Leases',
  cases: 20_000,
  make: (random) => mutateText(random, corpus),
  check: (text) => {
    const annotations = {
      'vipnat.io/drained': text,
      'vipnat.io/seats': text,
      'vipnat.io/programmed': text,
      'vipnat.io/mode': text,
    };
    const lease: Lease = {
      metadata: { name: 'vipnat-lb-w1', uid: 'u', resourceVersion: '1', generation: 0, annotations },
    };
    const report = parseNodeLease(lease)?.report;
    const seats = report?.seats ?? [];
    insist(seats.length === 0 || isDeepStrictEqual(seats, JSON.parse(text)), 'a seat that nobody named');
    const drained = readDrained(lease);
    insist(
      drained.every(({ node }) => text.includes(node)),
      'a node that nobody named',
    );
  },
});
