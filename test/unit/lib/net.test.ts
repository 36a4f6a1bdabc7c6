import {
  type Endpoint,
  parseEndpoint,
  formatEndpoint,
  sortEndpoints,
  areSameEndpoints,
  parseRange,
  parseAddress,
  formatRange,
  fromNumber,
  toNumber,
  overlap,
  mergeRanges,
  countOfFamily,
  getNth,
  toPrefixes,
  countAddresses,
  classifyAddress,
  countCommonBits,
  explainUnfit,
} from '../../../lib/net.ts';
import { describe, test, expect } from '@jest/globals';
import { fc } from '../../support/random/fc.ts';

const toEndpoints = (...texts: readonly string[]): Endpoint[] =>
  texts.map((text) => parseEndpoint(text)).filter((endpoint) => endpoint !== null);

const at = (address: string, port: number): Endpoint => {
  return { family: address.includes(':') ? 'ipv6' : 'ipv4', address, port };
};

describe('parseEndpoint', () => {
  test.each([
    ['10.0.0.1:6443', undefined, at('10.0.0.1', 6443)],
    ['[FD00::0:1]:443', undefined, at('fd00::1', 443)],
    ['10.0.0.1:1', undefined, at('10.0.0.1', 1)],
    ['10.0.0.1:65535', undefined, at('10.0.0.1', 65_535)],
    ['10.0.0.1', undefined, null],
    ['fd00::1', undefined, null],
    ['10.0.0.1', 6443, at('10.0.0.1', 6443)],
    ['fd00::1', 6443, at('fd00::1', 6443)],
    ['10.0.0.1:8443', 6443, at('10.0.0.1', 8443)],
    // An address that ends like a port.
    ['fd00::1:6443', 443, at('fd00::1:6443', 443)],
  ])('%s, with the default port %s, is %j', (text, port, endpoint) => {
    expect(parseEndpoint(text, port)).toEqual(endpoint);
  });

  test.each([
    ...['10.0.0.1:0', '10.0.0.1:65536', '10.0.0.1:06443', '10.0.0.1:', '10.0.0.1:+1'],
    ...['10.0.0.1:6443 ', '[10.0.0.1]:6443', '[fd00::1]', '[fd00::1%eth0]:6443', 'localhost:6443'],
    ...[':6443', ''],
  ])('%j is none, with or without a default port', (text) => {
    expect([parseEndpoint(text), parseEndpoint(text, 6443)]).toEqual([null, null]);
  });
});

test('endpoints are sorted to the same list for every order, each once', () => {
  const [a, b, c] = ['10.0.0.1:6443', '10.0.0.2:6443', '10.0.0.2:443'] as const;
  const sorted = sortEndpoints(toEndpoints(c, a, b, a)).map(formatEndpoint);
  expect(sorted).toEqual([a, c, b]);
  expect(sortEndpoints(toEndpoints(b, c, a)).map(formatEndpoint)).toEqual(sorted);
});

test.each([
  ['another order, one of them twice', '10.0.0.1:1 10.0.0.2:1', '10.0.0.2:1 10.0.0.1:1 10.0.0.2:1', true],
  ['one missing', '10.0.0.1:1 10.0.0.2:1', '10.0.0.1:1', false],
  ['another port', '10.0.0.1:1', '10.0.0.1:2', false],
  ['one list empty', '10.0.0.1:1', '', false],
  ['both lists empty', '', '', true],
])('two lists of endpoints, with %s', (_, one, right, expected) => {
  expect(areSameEndpoints(toEndpoints(...one.split(' ')), toEndpoints(...right.split(' ')))).toBe(expected);
});

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
    // With network and broadcast address, as with other load balancers.
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
    ...['', '10.0.9.5/24', '10.0.9.0/33', '10.0.9.0/', '10.0.9.0/024', '10.0.9.9-10.0.9.8'],
    ...['10.0.9.9-fd00::1', '10.0.9.1-10.0.9.2-10.0.9.3', '10.0.9.1-99', 'fd00::/129'],
    ...['fe80::1%eth0', 'example.com'],
  ])('%s is none', (text) => {
    expect(parseRange(text)).toBeNull();
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
  expect([countOfFamily(merged, 'ipv4'), getNth(merged, 'ipv4', 10n).text]).toEqual([11n, '10.0.9.20']);
  expect(getNth(merged, 'ipv6', 0n).text).toBe('fd00::1');
  expect(() => getNth(merged, 'ipv6', 1n)).toThrow(RangeError);
});

describe('addresses as CIDRs', () => {
  test.each([
    ['', ''],
    ['10.0.9.10', '10.0.9.10/32'],
    ['10.0.9.11 10.0.9.10 10.0.9.10', '10.0.9.10/31'],
    ['10.0.9.7 10.0.9.8 10.0.9.9 10.0.9.10 10.0.9.11', '10.0.9.7/32 10.0.9.8/30'],
    ['fd00::1 fd00::2 fd00::3', 'fd00::1/128 fd00::2/127'],
    ['255.255.255.254 255.255.255.255 0.0.0.0', '0.0.0.0/32 255.255.255.254/31'],
  ])('%j are %j', (addresses, prefixes) => {
    expect(toPrefixes(addresses.split(' ').filter(Boolean).map(readAddress)).join(' ')).toBe(prefixes);
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

describe('parseAddress', () => {
  test.each([
    ['10.0.0.50', 'ipv4', '10.0.0.50'],
    ['0.0.0.0', 'ipv4', '0.0.0.0'],
    ['fd00::1', 'ipv6', 'fd00::1'],
    ['FD00:0:0:0:0:0:0:1', 'ipv6', 'fd00::1'],
    ['2001:0db8:0000:0000:0001:0000:0000:0001', 'ipv6', '2001:db8::1:0:0:1'],
    ['::', 'ipv6', '::'],
  ])('%s is an %s address with the canonical text %s', (text, family, canonical) => {
    expect(parseAddress(text)).toEqual({ family, text: canonical });
  });

  test.each([
    ['a name', 'master-1'],
    ['nothing', ''],
    ['a prefix', '10.0.0.0/24'],
    ['a zone', 'fe80::1%eth0'],
    ['brackets', '[fd00::1]'],
    ['a port', '10.0.0.1:6443'],
    ['surrounding spaces', ' 10.0.0.1'],
    ['a leading zero, which some read as octal', '10.0.0.010'],
    ['three parts', '10.0.1'],
    ['one number', '167772161'],
    ['a part over 255', '10.0.0.300'],
  ])('%s is no address', (_, text) => {
    expect(parseAddress(text)).toBeNull();
  });
});

const scopeToAddresses = {
  unicast: ['10.0.0.50', '100.64.0.1', '192.0.2.1', '8.8.8.8', 'fd00::1', '2001:db8::1'],
  unspecified: ['0.0.0.0', '::'],
  loopback: ['127.0.0.1', '127.8.9.10', '::1'],
  linkLocal: ['169.254.1.1', 'fe80::1'],
  multicast: ['224.0.0.18', 'ff02::12'],
  broadcast: ['255.255.255.255'],
  ipv4Mapped: ['::ffff:10.0.0.1'],
};

test.each(Object.entries(scopeToAddresses))('the scope %s is that of %j', (scope, texts) => {
  expect(texts.map((text) => classifyAddress(readAddress(text)))).toEqual(texts.map(() => scope));
});

test.each([
  ['10.77.0.50', '10.77.0.50', 32],
  ['10.77.0.50', '10.77.0.51', 31],
  ['10.77.0.50', '10.77.0.178', 24],
  ['10.77.0.50', '138.77.0.50', 0],
  ['fd77::50', 'fd77::11', 121],
  ['fd77::50', '10.77.0.50', 0],
])('%s and %s share %i leading bits', (left, right, bits) => {
  expect(countCommonBits(left, right)).toBe(bits);
  expect(countCommonBits(right, left)).toBe(bits);
});

const eth0 = (address: string, prefixLength = 24) => ({ address, prefixLength, device: 'eth0' });
const eth1 = { ...eth0('203.0.113.50'), device: 'eth1' };

test.each([
  ['10.0.0.11', [eth0('10.0.0.11')], 'is the own address of eth0'],
  ['10.0.0.11', [eth0('10.0.0.11'), eth1], 'is the own address of eth0'],
  // As keepalived holds it: without a subnet, beside an own address, or alone on another interface.
  ['10.0.0.50', [eth0('10.0.0.11'), eth0('10.0.0.50', 32)], null],
  ['10.0.0.50', [eth0('10.0.0.11'), eth0('10.0.0.50')], null],
  ['10.0.0.50', [eth0('10.0.0.2', 32), eth0('10.0.0.50')], null],
  ['203.0.113.50', [eth0('10.0.0.11'), eth1], null],
  ['10.0.0.1', [eth0('10.0.0.11')], 'is the gateway of this host'],
  ['10.0.0.0', [eth0('10.0.0.11')], 'is the address of the network of eth0'],
  ['10.0.0.255', [eth0('10.0.0.11')], 'is the broadcast address of the network of eth0'],
  ['10.0.0.255', [eth0('10.0.0.11', 23)], null],
  ['fd00::', [eth0('fd00::11', 64)], 'is the address of the network of eth0'],
  ['fd00::11', [eth0('fd00::11', 64)], 'is the own address of eth0'],
  ['fd00::ff', [eth0('fd00::11', 64), eth0('10.0.0.11')], null],
])('%s as a virtual IP on a host with %j %s', (address, locals, why) => {
  expect(explainUnfit(address, locals, ['10.0.0.1'])).toBe(why);
});
