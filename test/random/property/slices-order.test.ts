import {
  makeEarlyEndpoints,
  makeEndpoints,
  makeLoadBalancer,
  makeVirtualIp,
} from '../../support/kube-api/service-objects.ts';
import { earlySlices, listBackends } from '../../../lib/api/endpoints.ts';
import { ServiceIndex } from '../../../balancer/services/index.ts';
import { endpointSlices, services } from '../../../lib/api/service.ts';
import { virtualIps } from '../../../lib/api/vipnat.ts';
import { fc } from '../../support/random/fc.ts';
import { expect, test } from '@jest/globals';
import { forAll } from './for-all.ts';

/** In the order in which kube-proxy prefers them (endpointslicecache.go): ready, then serving, then the rest. */
const states = [
  { ready: true, serving: true, terminating: false },
  { ready: false, serving: true, terminating: true },
  { ready: false, serving: false, terminating: true },
  { ready: false, serving: false, terminating: false },
];

/** Pods share addresses: with the host's network, or as one ends and the next one comes. */
const endpoint = fc.record({
  addresses: fc.constantFrom(['10.1.0.2'], ['10.1.0.3']),
  nodeName: fc.constantFrom('w1', 'w2'),
  targetRef: fc.constantFrom({ kind: 'Pod', uid: 'a' }, { kind: 'Pod', uid: 'b' }, null),
  conditions: fc.constantFrom(...states),
});
const sides = fc.array(fc.array(endpoint, { maxLength: 3 }), { maxLength: 3 });
const weights = fc.array(fc.dictionary(fc.constantFrom('10.1.0.2', '10.1.0.3'), fc.constantFrom(0, 2, 5)), {
  minLength: 3,
  maxLength: 3,
});
const order = fc.array(fc.nat(), { minLength: 20, maxLength: 20 });

const shuffle = <T>(list: readonly T[], keys: readonly number[]) =>
  list.map((one, at) => [keys[at] ?? 0, one] as const).sort(([one], [other]) => one - other);

/** What a balancer makes of both sides' slices, whatever comes first. */
function decide(
  [kubernetes, early, notes]: readonly [object[][], object[][], Record<string, number>[]],
  keys: readonly number[],
) {
  const index = new ServiceIndex('w1');
  index.early.follow();
  const version = (object: object & { metadata: object }, at = 1) => ({
    ...object,
    metadata: { ...object.metadata, name: `web-${at}`, resourceVersion: String(at) },
  });
  const come = <T>(after: T, at: number) => ({ key: `default/web-${at}`, before: null, after });
  const arrange = (list: object[][]) =>
    shuffle([...list.entries()], keys).map(
      ([, [at, endpoints]]) => [at, shuffle(endpoints, keys).map(([, one]) => one) as never[]] as const,
    );
  const service = services.schema.parse(version(makeLoadBalancer('web', [{ port: 80 }])));
  const vip = makeVirtualIp('10.77.0.60', ['web']);
  index.takeServices([{ key: 'default/web', before: null, after: service }]);
  const given = virtualIps.schema.parse({ ...vip, metadata: { ...vip.metadata, resourceVersion: '1' } });
  index.takeVirtualIps([{ key: '10.77.0.60', before: null, after: given }]);
  index.takeSlices(
    arrange(kubernetes).map(([at, endpoints]) =>
      come(endpointSlices.schema.parse(version(makeEndpoints('web', [{ port: 80 }], endpoints), at)), at),
    ),
  );
  index.takeEarlySlices(
    arrange(early).map(([at, endpoints]) => {
      const slice = makeEarlyEndpoints('web', [{ port: 80 }], endpoints, notes[at]);
      return come(earlySlices.schema.parse(version(slice, at)), at);
    }),
  );
  const { slices = [], weights: found = new Map() } = index.find('default/web') ?? {};
  const query = { family: 'ipv4', name: '', protocol: 'TCP', weights: found } as const;
  return { ...listBackends(slices, query, new Set()), awaited: index.early.awaited.toSorted() };
}

test('the order of slices and of endpoints decides nothing, also where addresses are there twice', async () => {
  await forAll({ runs: 1000 }, [fc.tuple(sides, sides, weights), order], (all, keys) => {
    expect(decide(all as never, keys)).toEqual(decide(all, []));
  });
});

test('of endpoints at one address the one counts that kube-proxy prefers', async () => {
  await forAll({ runs: 500 }, [sides], (slices) => {
    const { backends } = decide([slices, [], []], []);
    for (const { address, isReady, isServingLast, isEnding } of backends) {
      const there = slices.flat().filter(({ addresses }) => addresses[0] === address);
      const best = Math.min(...there.map(({ conditions }) => states.indexOf(conditions)));
      expect([isReady, isServingLast]).toEqual([best === 0, best === 1]);
      if (best < 2) expect(isEnding).toBe(best === 1);
    }
  });
});
