import { fc } from '../../support/random/fc.ts';
import { hash } from 'node:crypto';
import { type Chance, type Method, toChances } from '../../../lib/dialect.ts';
import { matchIptablesChance as matchIptables } from '../../../lib/iptables/vip-rules.ts';
import { matchNftChance as matchNft } from '../../../lib/nft/vip-rules.ts';
import { describe, test, expect } from '@jest/globals';
import { toEndpoint } from '../../support/fakes/endpoints.ts';
import { type Endpoint, formatEndpoint } from '../../../lib/net.ts';
import { forAll } from './for-all.ts';

type Backend = Readonly<Record<'name' | 'weight', number>>;

const backends = fc
  .array(fc.oneof(fc.nat(8), fc.nat(1000)), { maxLength: 12 })
  .map((weights) => weights.map((weight, name): Backend => ({ name, weight })));

/** iptables' rules have ten digits: twelve of them in a row add up their errors. */
const tolerance = 1e-8;

const hosts = Array.from({ length: 12 }, (_, at) => toEndpoint(`10.0.0.${11 + at}:6443`));
const [choice = toEndpoint('10.0.0.11:6443')] = hosts;

/** The probability that a rule's match tells the kernel; 1 where it has none. */
const dialects: Readonly<Record<string, (chance: Chance<unknown>) => number>> = {
  iptables: (chance) => {
    const text = matchIptables({ ...chance, choice });
    return text === ''
      ? 1
      : Number(/^-m statistic --mode random --probability (\d\.\d{10}) $/.exec(text)?.[1]);
  },
  nftables: (chance) => {
    const text = matchNft({ ...chance, choice });
    if (text === '') return 1;
    const [, modulus, below] = /^numgen random mod (\d+) (?:0|< (\d+)) $/.exec(text) ?? [];
    return Number(below ?? 1) / Number(modulus);
  },
};

/** What part of all connections each backend gets from rules that are tried one after the other. */
function share(
  seen: readonly Backend[],
  readProbability: (chance: Chance<unknown>) => number,
): Map<number, number> {
  let rest = 1;
  const shares = toChances(seen, ({ weight }) => weight).map((chance) => {
    const taken = rest * readProbability(chance);
    rest -= taken;
    return [chance.choice.name, taken] as const;
  });
  return new Map(shares);
}

describe.each(Object.entries(dialects))('%s', (_, readProbability) => {
  test('each backend gets the share of new connections that its weight is of all, and one of weight 0 none', async () => {
    await forAll({}, [backends], (seen) => {
      const sum = seen.reduce((total, { weight }) => total + weight, 0);
      const shares = share(seen, readProbability);
      for (const { name, weight } of seen) {
        if (weight === 0) expect(shares.has(name)).toBe(false);
        else expect(Math.abs((shares.get(name) ?? 0) - weight / sum)).toBeLessThan(tolerance);
      }
    });
  });

  test('equal weights, whichever they are, read like none', async () => {
    await forAll(
      {},
      [fc.integer({ min: 1, max: 12 }), fc.integer({ min: 1, max: 1000 })],
      (count, weight) => {
        const names = Array.from({ length: count }, (__, name) => name);
        expect(toChances(names, () => weight)).toEqual(toChances(names));
        expect(toChances(names).map(readProbability)[0]).toBeCloseTo(1 / count, 9);
      },
    );
  });
});

const clients = Array.from({ length: 3000 }, (_, at) => `client ${at}`);

describe.each([
  ['iptables', matchIptables],
  ['nftables', matchNft],
])('%s, rules as the kernel tries them, one after the other', (_, toMatch) => {
  /** Who gets each client's connection. A rule counts what gets to it, or hashes clients with its seed. */
  function distribute(seen: readonly Endpoint[], method: Method): string[] {
    const rules = toChances(seen).map((chance) => {
      const text = toMatch(chance, method);
      const [modulus, seed] = [/(?:every|nodes|mod) (\d+) /.exec(text)?.[1], /seed (\S+) /.exec(text)?.[1]];
      return { backend: formatEndpoint(chance.choice), modulus: Number(modulus ?? 1), seed, count: 0 };
    });
    return clients.map((client) => {
      const taker = rules.find((rule) => {
        const number = Number.parseInt(hash('sha256', `${client} ${rule.seed ?? ''}`).slice(0, 8), 16);
        const place =
          rule.seed === undefined ? rule.count++ % rule.modulus : (number / 2 ** 32) * rule.modulus;
        return place < 1;
      });
      return taker?.backend ?? 'nobody';
    });
  }

  test('in turn, each backend gets every so many', () => {
    for (let count = 1; count <= hosts.length; count += 1) {
      const seen = hosts.slice(0, count);
      const turns = clients.map((__, at) => formatEndpoint(seen[at % count] ?? choice));
      expect(distribute(seen, 'rr')).toEqual(turns);
    }
  });

  test("by the client's address, each backend gets its part, and most clients of others stay when one goes", () => {
    const three = hosts.slice(0, 3);
    const before = distribute(three, 'hash');
    for (const gone of three.map(formatEndpoint)) {
      expect(Math.abs(before.filter((one) => one === gone).length - 1000)).toBeLessThan(150);
      const after = distribute(
        three.filter((one) => formatEndpoint(one) !== gone),
        'hash',
      );
      const moved = before.filter((one, at) => one !== gone && one !== after[at]);
      // A twelfth of all at most, where the last one goes.
      expect(moved.length).toBeLessThan(400);
    }
  });
});
