import { describe, expect, test } from '@jest/globals';
import { fc } from '../../../support/random/fc.ts';
import { parseAddress } from '../../../../lib/address/address.ts';
import {
  contains,
  countOfFamily,
  formatRange,
  fromNumber,
  getNth,
  mergeRanges,
  overlap,
  parseRange,
  toNumber,
} from '../../../../lib/services/ranges.ts';

function read(text: string) {
  const range = parseRange(text);
  if (range === null) throw new TypeError(`no range: ${text}`);
  return range;
}

function readAddress(text: string) {
  const address = parseAddress(text);
  if (address === null) throw new TypeError(`no address: ${text}`);
  return address;
}

describe('parseRange', () => {
  test.each([
    ['10.0.9.10-10.0.9.99', '10.0.9.10-10.0.9.99'],
    ['10.0.9.10 - 10.0.9.11', '10.0.9.10-10.0.9.11'],
    ['10.0.9.0/30', '10.0.9.0-10.0.9.3'],
    ['10.0.9.7', '10.0.9.7'],
    ['10.0.9.7/32', '10.0.9.7'],
    ['0.0.0.0/0', '0.0.0.0-255.255.255.255'],
    ['fd00:9::/126', 'fd00:9::-fd00:9::3'],
    ['FD00::a-fd00::B', 'fd00::a-fd00::b'],
    ['::/0', '::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
  ])('%s is %s', (text, expected) => {
    expect(formatRange(read(text))).toBe(expected);
  });

  test.each([
    '',
    '10.0.9.5/24',
    '10.0.9.0/33',
    '10.0.9.0/',
    '10.0.9.0/024',
    '10.0.9.9-10.0.9.8',
    '10.0.9.9-fd00::1',
    '10.0.9.1-10.0.9.2-10.0.9.3',
    '10.0.9.1-99',
    'fd00::/129',
    'fe80::1%eth0',
    'example.com',
  ])('%s is none', (text) => {
    expect(parseRange(text)).toBeNull();
  });

  test('network and broadcast addresses of a CIDR belong to it, as with other load balancers', () => {
    const range = read('10.0.9.0/24');
    expect(contains(range, readAddress('10.0.9.0'))).toBe(true);
    expect(contains(range, readAddress('10.0.9.255'))).toBe(true);
    expect(contains(range, readAddress('10.0.10.0'))).toBe(false);
  });
});

test('an address and its number are the same thing', () => {
  fc.assert(
    fc.property(fc.oneof(fc.ipV4(), fc.ipV6()), (text) => {
      const address = parseAddress(text);
      fc.pre(address !== null);
      expect(fromNumber(address.family, toNumber(address))).toEqual(address);
    }),
  );
});

test('ranges overlap when they have an address in common', () => {
  expect(overlap(read('10.0.9.1-10.0.9.5'), read('10.0.9.5-10.0.9.9'))).toBe(true);
  expect(overlap(read('10.0.9.1-10.0.9.5'), read('10.0.9.6'))).toBe(false);
  expect(overlap(read('0.0.0.0/0'), read('::/0'))).toBe(false);
});

test('merged ranges have each address once, in order', () => {
  const merged = mergeRanges(
    ['fd00::1', '10.0.9.5-10.0.9.9', '10.0.9.1-10.0.9.5', '10.0.9.10', '10.0.9.2', '10.0.9.20'].map(read),
  );
  expect(merged.map(formatRange)).toEqual(['10.0.9.1-10.0.9.10', '10.0.9.20', 'fd00::1']);
  expect(countOfFamily(merged, 'ipv4')).toBe(11n);
  expect(getNth(merged, 'ipv4', 10n).text).toBe('10.0.9.20');
  expect(getNth(merged, 'ipv6', 0n).text).toBe('fd00::1');
  expect(() => getNth(merged, 'ipv6', 1n)).toThrow(RangeError);
});
