import { test, expect, describe } from '@jest/globals';
import {
  makePool,
  makeService,
  nowMs,
  makeVirtualIp,
  toServiceKey,
  makeCache,
  publish,
} from '../../../support/fakes/service-objects.ts';
import { decide, getKind } from '../../../support/fakes/service-steps.ts';
import { type AddressRange, parseRange } from '../../../../lib/net.ts';
import { countTaken, walkAddresses } from '../../../../controller/allocate/choose-address.ts';

describe('an address that was given back', () => {
  const named = { metadata: { annotations: { 'vipnat.io/addresses': '10.0.9.20' } } };
  const pools = [makePool('pool', { addresses: ['10.0.9.20'], reuseAfter: '60s' })];
  const look = (key: string, releasedMsAgo: number | null) => {
    const releasedAt = releasedMsAgo === null ? null : new Date(nowMs - releasedMsAgo).toISOString();
    const status = { releasedAt };
    const virtualIps = [makeVirtualIp('10.0.9.20', [], { spec: { formerNamespaces: ['shop'] }, status })];
    return JSON.stringify(
      decide({ services: [makeService(key, named)], pools, virtualIps }, toServiceKey(key)),
    );
  };

  test.each([[0], [59_000], [null]])('is of its former namespace until reuseAfter: %s ms ago', (ago) => {
    expect(look('shop/web', ago)).toContain('AddressAllocated');
    expect(look('evil/snipe', ago)).toContain('"reason":"AddressTaken"');
    expect(look('evil/snipe', ago)).toContain('kept for Services of the namespace shop');
  });

  test('is named by each Service after that', () => {
    expect(look('evil/snipe', 60_000)).toContain('AddressAllocated');
  });
});

test('of the addresses that wait to be given again a full pool gives the one that waits longest', () => {
  const pools = [makePool('pool', { addresses: ['10.0.9.20-10.0.9.22'], reuseAfter: '600s' })];
  const release = (address: string, msAgo: number) =>
    makeVirtualIp(address, [], {
      spec: { formerNamespaces: ['shop'] },
      status: { releasedAt: new Date(nowMs - msAgo).toISOString() },
    });
  for (const [first, second, third] of [
    [1000, 9000, 5000],
    [9000, 1000, 5000],
    [5000, 1000, 9000],
  ] as const) {
    const released = { '10.0.9.20': first, '10.0.9.21': second, '10.0.9.22': third };
    const virtualIps = Object.entries(released).map(([address, msAgo]) => release(address, msAgo));
    const [longest = ''] = Object.entries(released).find(([, msAgo]) => msAgo === 9000) ?? [];
    const steps = decide({ services: [makeService('apps/a')], pools, virtualIps }, toServiceKey('apps/a'));
    const given = Object.keys(released).filter((address) => JSON.stringify(steps).includes(address));
    expect(given).toEqual([longest]);
  }
});

describe('a share key', () => {
  const policies = { Cluster: {}, Local: { externalTrafficPolicy: 'Local', selector: { app: 'web' } } };
  const look = (key: string, policy: keyof typeof policies, shareAcrossNamespaces: boolean) => {
    const pools = [makePool('pool', { addresses: ['10.0.9.10'], shareAcrossNamespaces })];
    const metadata = { annotations: { 'vipnat.io/share': 'web' } };
    const spec = policies[policy];
    const first = makeService('shop/web', { metadata, spec: { ...spec, ports: [{ port: 443 }] } });
    const services = [first, makeService(key, { metadata, spec })];
    const virtualIps = [makeVirtualIp('10.0.9.10', ['shop/web'], { spec: { shareKey: 'web' } })];
    return JSON.stringify(decide({ services, pools, virtualIps }, toServiceKey(key)));
  };

  test.each([
    ['shop/other', 'Cluster', false, 'AddressAllocated'],
    ['shop/other', 'Local', false, 'AddressAllocated'],
    ['evil/acme', 'Cluster', false, 'PoolExhausted'],
    ['evil/acme', 'Local', false, 'PoolExhausted'],
    ['evil/acme', 'Cluster', true, 'AddressAllocated'],
    // Equal selectors are of other pods in another namespace.
    ['evil/acme', 'Local', true, 'PoolExhausted'],
  ] as const)('joins Services of one namespace, unless the pool says otherwise: %s, %s, %s', (...row) => {
    const [key, policy, isAcross, expected] = row;
    expect(look(key, policy, isAcross)).toContain(expected);
  });
});

/** How many VirtualIPs turns of Services look up. */
class Lookups<V> extends Map<string, V> {
  count = 0;

  override get(name: string): V | undefined {
    this.count += 1;
    return super.get(name);
  }
}

describe('1,000 Services that wait for a full pool', () => {
  const shareKey = 'web';
  const takers = Array.from({ length: 256 }, (_, index) =>
    makeVirtualIp(`10.0.9.${index}`, [`apps/t${index}`]),
  );
  const sharers = takers.map((one) => ({ ...one, spec: { ...one.spec, shareKey } }));
  const annotations = { 'vipnat.io/share': shareKey };

  test.each([
    ['without a share key', takers, {}],
    ['with one', sharers, { metadata: { annotations } }],
  ])('search it once between two changes, %s', (_, virtualIps, parts) => {
    const users = virtualIps.map((one, index) =>
      makeService(`apps/t${index}`, { ...parts, status: publish(`10.0.9.${index}`) }),
    );
    const waiting = Array.from({ length: 1000 }, (_, index) => makeService(`apps/w${index}`, parts));
    const pools = [makePool('pool', { addresses: ['10.0.9.0/24'] })];
    const cache = makeCache({ services: [...users, ...waiting], pools, virtualIps });
    const search = () => {
      const view = cache.view(nowMs);
      const lookups = new Lookups(view.virtualIps);
      const steps = waiting.map(({ metadata: { name } }) =>
        JSON.stringify(getKind('Service').next(`apps/${name}`, { ...view, virtualIps: lookups })),
      );
      const given = steps.filter((step) => step.includes('AddressAllocated')).length;
      const none = steps.filter((step) => step.includes('PoolExhausted')).length;
      expect(lookups.count).toBeLessThan(given * 300 + 2000);
      return { given, none };
    };
    expect(search()).toEqual({ given: 0, none: 1000 });
    const [first] = virtualIps;
    const key = first?.metadata.name ?? '';
    cache.take('virtualIps', { key, after: null });
    cache.take('services', { key: 'apps/t0', after: null });
    expect(search()).toEqual({ given: 0, none: 1000 });
    // It was lost, and is back without a user: free.
    cache.take('virtualIps', { key, after: makeVirtualIp('10.0.9.0', []) });
    cache.take('virtualIps', { key, after: null });
    expect(search()).toEqual({ given: 1000, none: 0 });
  });
});

function read(...texts: readonly string[]): AddressRange[] {
  return texts.map(parseRange).filter((range) => range !== null);
}

function list(ranges: readonly AddressRange[], family: 'ipv4' | 'ipv6', seed: string): string[] {
  return [...walkAddresses(ranges, family, seed)].map(({ text }) => text);
}

test('each address of the family comes once, whatever the seed', () => {
  const ranges = read('10.0.9.10-10.0.9.15', '10.0.9.20', 'fd00::1');
  for (let seed = 0; seed < 50; seed += 1) {
    const walked = list(ranges, 'ipv4', String(seed));
    expect([new Set(walked).size, walked.length]).toEqual([7, 7]);
  }
  expect([list(ranges, 'ipv6', 'x'), list(read('10.0.9.1'), 'ipv6', 'x')]).toEqual([['fd00::1'], []]);
});

test('the same seed begins at the same address, others at others', () => {
  const ranges = read('10.0.9.0/24');
  const first = (seed: string) => list(ranges, 'ipv4', seed)[0];
  expect(first('a')).toBe(first('a'));
  const firsts = new Set(Array.from({ length: 100 }, (_, index) => first(`uid ${index}`)));
  expect(firsts.size).toBeGreaterThan(60);
});

test('a /64 costs no more than what is asked for', () => {
  const [address] = walkAddresses(read('fd00::/64'), 'ipv6', 'a');
  expect(address?.text).toMatch(/^fd00:/);
  const pool = { pool: makePool('pool', { addresses: ['fd00::/64'] }), ranges: read('fd00::/64') };
  // No address can be looked up.
  const view = { virtualIps: new Map(), exclusions: { listAddresses: () => [] } } as never;
  expect(countTaken(pool, 'ipv6', view)).toBe(0);
});
