import { expect, test } from '@jest/globals';
import { isInRanges, normaliseRanges } from '../../../../balancer/decide/source-ranges.ts';

test('a Service without ranges lets everybody come', () => {
  expect(normaliseRanges(null, 'ipv4')).toBeNull();
  expect(normaliseRanges([], 'ipv4')).toBeNull();
  expect(normaliseRanges([' '], 'ipv4')).toBeNull();
});

test('a list without a range of the family lets nobody of it come', () => {
  expect(normaliseRanges(['10.0.0.0/8'], 'ipv6')).toEqual([]);
  expect(normaliseRanges(['no range'], 'ipv4')).toEqual([]);
  expect(normaliseRanges(['10.0.0.0/33'], 'ipv4')).toEqual([]);
});

test('ranges are of the family, without their host bits, and none is within another', () => {
  expect(
    normaliseRanges(['10.1.2.3/8', '10.9.0.0/16', ' 192.168.0.7/32', 'fd00::1/64', '10.0.0.0/8'], 'ipv4'),
  ).toEqual(['10.0.0.0/8', '192.168.0.7']);
  expect(normaliseRanges(['FD00:0::1/64', 'fd00::5', '::1/128'], 'ipv6')).toEqual(['::1', 'fd00::/64']);
});

test('an address is in a range of its family only', () => {
  expect(isInRanges('10.200.0.1', ['10.0.0.0/8'])).toBe(true);
  expect(isInRanges('11.0.0.1', ['10.0.0.0/8', '11.0.0.2'])).toBe(false);
  expect(isInRanges('fd00::1', ['0.0.0.0/0', 'fd00::/16'])).toBe(true);
  expect(isInRanges('fd00::1', ['0.0.0.0/0'])).toBe(false);
});
