import { readdirSync, readFileSync } from 'node:fs';
import { fc } from '../../support/random/fc.ts';
import { kubernetesService, readIptablesProxy, readNftProxy } from '../../../lib/kube-proxy/read.ts';
import { webService } from '../../support/kube-proxy/rules.ts';
import { VipnatError } from '../../../lib/errors.ts';
import { describe, test, expect } from '@jest/globals';
import { parseSave } from '../../../lib/iptables/rules.ts';
import { decideProxyMode, findKubernetesServer } from '../../../agent/observe/kube-proxy.ts';
import { parseIpvs } from '../../../lib/kube-proxy/ipvs.ts';

const folder = new URL('../../support/fixtures/captures/', import.meta.url);
const readCaptures = (pattern: RegExp) =>
  readdirSync(folder)
    .filter((name) => pattern.test(name))
    .map((name) => readFileSync(new URL(name, folder), 'utf8'));

/** One change to a text: `length` characters at the given share of it are cut out, doubled or replaced. */
const change = fc.record({
  share: fc.double({ min: 0, max: 1, noNaN: true }),
  length: fc.integer({ min: 0, max: 200 }),
  put: fc.oneof(
    fc.constant(''),
    fc.constant(null),
    fc.string({ maxLength: 20 }),
    fc.constantFrom('\n', 'COMMIT\n', '*nat\n', '-A ', '"', '[', '{', '0', 'null', 'FFFFFFFF:FFFF', '-> '),
  ),
});

/** A capture with up to four changes. A put of null doubles the piece. */
const mutate = (captures: readonly string[]) =>
  fc.tuple(fc.constantFrom(...captures), fc.array(change, { maxLength: 4 })).map(([capture, changes]) =>
    changes.reduce((text, { share, length, put }) => {
      const start = Math.floor(share * text.length);
      const piece = text.slice(start, start + length);
      return text.slice(0, start) + (put ?? piece + piece) + text.slice(start + length);
    }, capture),
  );

const families = fc.constantFrom('ipv4', 'ipv6');

/** The captures hold both. */
const services = fc.constantFrom(kubernetesService, webService);

/** What the function gives, or the code of the VipnatError it throws; any other error fails the test. */
function attempt<T>(read: () => T): T | string {
  try {
    return read();
  } catch (error) {
    if (error instanceof VipnatError) return error.code;
    throw error;
  }
}

describe('whatever happens to the text, reading it gives an answer or a VipnatError, twice the same', () => {
  test('of iptables-save', () => {
    fc.assert(
      fc.property(mutate(readCaptures(/^ip6?tables-/)), families, services, (text, family, service) => {
        const read = () => {
          const view = readIptablesProxy(parseSave({ family, dialect: 'nft', text }), service);
          const mode = decideProxyMode({
            asked: null,
            configured: 'auto',
            iptables: [view],
            hasIpvsServer: false,
            hasNftEntryRule: false,
          });
          return { view, mode };
        };
        expect(attempt(read)).toEqual(attempt(read));
      }),
    );
  });

  test('of /proc/net/ip_vs', () => {
    const localAddresses = ['10.77.0.11'];
    fc.assert(
      fc.property(mutate(readCaptures(/^proc-/)), families, (text, family) => {
        const read = () => findKubernetesServer(parseIpvs(text), { family, localAddresses });
        const found = attempt(read);
        expect(found).toEqual(attempt(read));
        if (typeof found !== 'string') expect(found.server === null).toBe(found.reason !== null);
      }),
    );
  });

  test("of nft's JSON, and of any other JSON", () => {
    const objects = fc.oneof(
      fc.array(fc.jsonValue()),
      mutate(readCaptures(/^nft-.*\.json$/)).map((text) => toObjects(text)),
    );
    fc.assert(
      fc.property(objects, families, services, (found, family, service) => {
        const output = { family, objects: found };
        expect(readNftProxy(output, service)).toEqual(readNftProxy(output, service));
      }),
    );
  });
});

test('save output that is cut short is never read as a whole: its last table is missing or it is an error', () => {
  fc.assert(
    fc.property(fc.constantFrom(...readCaptures(/^ip6?tables-/)), fc.nat(), (text, position) => {
      const cut = text.slice(0, position % text.length);
      const read = attempt(() => parseSave({ family: 'ipv4', dialect: 'nft', text: cut }));
      const whole = parseSave({ family: 'ipv4', dialect: 'nft', text });
      if (typeof read === 'string') return;
      for (const [name, table] of read.tables) expect(table).toEqual(whole.tables.get(name));
    }),
  );
});

/** The changed JSON's objects; with text that is no JSON any more, the changed objects one by one. */
function toObjects(text: string): unknown[] {
  try {
    const { nftables } = JSON.parse(text) as { nftables?: unknown };
    return Array.isArray(nftables) ? (nftables as unknown[]) : [nftables];
  } catch {
    return [text];
  }
}
