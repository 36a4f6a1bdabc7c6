import { expect, test } from '@jest/globals';
import { type AddressRange, parseRange } from '../../../../lib/services/ranges.ts';
import { walkAddresses } from '../../../../controller/allocate/choose-address.ts';

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
    expect(new Set(walked).size).toBe(7);
    expect(walked).toHaveLength(7);
  }
  expect(list(ranges, 'ipv6', 'x')).toEqual(['fd00::1']);
  expect(list(read('10.0.9.1'), 'ipv6', 'x')).toEqual([]);
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
});
