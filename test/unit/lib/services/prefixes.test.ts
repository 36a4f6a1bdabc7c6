import { describe, expect, test } from '@jest/globals';
import { fc } from '../../../support/random/fc.ts';
import { parseAddress } from '../../../../lib/address/address.ts';
import { toPrefixes } from '../../../../lib/services/prefixes.ts';
import { countAddresses, fromNumber, parseRange } from '../../../../lib/services/ranges.ts';

const parse = (texts: readonly string[]) => texts.map(parseAddress).filter((address) => address !== null);

describe('addresses as CIDRs', () => {
  test.each([
    [[], []],
    [['10.0.9.10'], ['10.0.9.10/32']],
    [['10.0.9.11', '10.0.9.10', '10.0.9.10'], ['10.0.9.10/31']],
    [
      ['10.0.9.7', '10.0.9.8', '10.0.9.9', '10.0.9.10', '10.0.9.11'],
      ['10.0.9.7/32', '10.0.9.8/30'],
    ],
    [
      ['fd00::1', 'fd00::2', 'fd00::3'],
      ['fd00::1/128', 'fd00::2/127'],
    ],
    [
      ['255.255.255.254', '255.255.255.255', '0.0.0.0'],
      ['0.0.0.0/32', '255.255.255.254/31'],
    ],
  ])('%j are %j', (addresses, prefixes) => {
    expect(toPrefixes(parse(addresses))).toEqual(prefixes);
  });

  test('have exactly these, whatever they are', () => {
    const octets = fc.uniqueArray(fc.integer({ min: 0, max: 300 }), { maxLength: 80 });
    fc.assert(
      fc.property(octets, (numbers) => {
        const addresses = numbers.map((number) => fromNumber('ipv4', 0x0a00_0000n + BigInt(number)));
        const ranges = toPrefixes(addresses).map(parseRange);
        const count = ranges.reduce((sum, range) => sum + (range === null ? 0n : countAddresses(range)), 0n);
        expect(count).toBe(BigInt(numbers.length));
        for (const number of numbers) {
          const at = 0x0a00_0000n + BigInt(number);
          expect(ranges.some((range) => range !== null && range.first <= at && at <= range.last)).toBe(true);
        }
      }),
    );
  });
});
