import { expect, test } from '@jest/globals';
import { type Family } from '../../../../lib/address/address.ts';
import { listSources, maxSourceRanges, readSourceRanges } from '../../../../balancer/decide/source-ranges.ts';

const nowhere = { addresses: [], local: new Set<string>() };
const list = (
  texts: readonly string[] | null,
  family: Family,
  place: Parameters<typeof listSources>[2] = nowhere,
) => listSources(readSourceRanges(texts), family, place);

test('a Service without ranges lets everybody come', () => {
  expect([null, [], [' ']].map((texts) => list(texts, 'ipv4'))).toEqual([null, null, null]);
});

test('a list without a range of the family lets nobody of it come', () => {
  expect(list(['10.0.0.0/8'], 'ipv6')).toEqual([]);
  expect(list(['no range'], 'ipv4')).toEqual([]);
});

test('ranges are of the family, without their host bits, and as few as they can be', () => {
  const given = [
    '10.1.2.3/8',
    '10.9.0.0/16',
    ' 192.168.0.7/32',
    'fd00::1/64',
    '10.0.0.0/8',
    '12.0.0.0/9',
    '12.128.0.0/9',
  ];
  expect(list(given, 'ipv4')).toEqual(['10.0.0.0/8', '12.0.0.0/8', '192.168.0.7']);
  expect(list(['FD00:0::1/64', 'fd00::5', '::1/128', '::1.2.3.4/128'], 'ipv6')).toEqual([
    '::1',
    '::102:304',
    'fd00::/64',
  ]);
  expect(list(['0.0.0.0/0', '::ffff:10.0.0.0/104'], 'ipv4')).toEqual(['0.0.0.0/0']);
});

test.each([
  '010.0.0.0/8',
  '10.0.0.0/08',
  '10.0.0.0/33',
  '10.0.0/8',
  '0x0a.0.0.0/8',
  'fe80::1%eth0/64',
  '10.0.0.0/',
  'fd00::/129',
])('what may be meant otherwise is no range, and is named: %s', (text) => {
  expect(readSourceRanges([text, '10.0.0.0/8'])).toMatchObject({
    malformed: [text],
    familyToRanges: { ipv4: { texts: ['10.0.0.0/8'] }, ipv6: { texts: [] } },
  });
});

test("the Service's own address may come where this host may", () => {
  const addresses = ['10.77.0.60'];
  const from = (texts: readonly string[], ...local: string[]) =>
    list(texts, 'ipv4', { addresses, local: new Set(local) });
  expect(from(['11.0.0.2', '10.77.0.11'], 'fd00::1', '10.77.0.11')).toEqual([
    '10.77.0.11',
    '10.77.0.60',
    '11.0.0.2',
  ]);
  expect(from(['10.77.0.11'], '10.77.0.12')).toEqual(['10.77.0.11']);
  expect(from(['10.77.0.0/24'], '10.77.0.11')).toEqual(['10.77.0.0/24']);
});

test('a list is read once, and one that is too long not at all', () => {
  const texts = Array.from({ length: maxSourceRanges }, (_, at) => `10.${at >> 7}.${(2 * at) & 255}.0/24`);
  expect(readSourceRanges(texts)).toBe(readSourceRanges(texts));
  expect(list(texts, 'ipv4')).toHaveLength(maxSourceRanges);
  expect(list(texts, 'ipv4')).toBe(list(texts, 'ipv4'));
  const looked: unknown[] = [];
  const more = new Proxy([...texts, '10.0.0.0/8'], {
    get(target, key) {
      looked.push(key);
      return Reflect.get(target, key) as unknown;
    },
  });
  expect(readSourceRanges(more).isTooLong).toBe(true);
  expect(looked).toEqual(['length']);
});
