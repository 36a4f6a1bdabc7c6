import { readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { parseCapture } from '../../../../lib/keepalived/advert.ts';

const read = (name: string) =>
  readFileSync(
    new URL(`../../../support/fixtures/captures/tcpdump-vrrp.${name}.txt`, import.meta.url),
    'utf8',
  );

test.each([
  ['v2', { family: 'ipv4', source: '10.77.0.11', vrid: 51, addresses: ['10.77.0.50', '10.77.0.51'] }],
  ['v3', { family: 'ipv4', source: '10.77.0.11', vrid: 51, addresses: ['10.77.0.50', '10.77.0.51'] }],
  ['v6', { family: 'ipv6', source: 'fe80::e4b6:d7ff:fee2:3bb6', vrid: 81, addresses: ['fd77::50'] }],
])('adverts of keepalived 2.2.7, as tcpdump saw them: %s', (name, advert) => {
  expect(parseCapture(read(name))).toEqual(Array.from({ length: 3 }, () => ({ ...advert, priority: 110 })));
});

test('whatever is no whole advert is left out', () => {
  const bytes = read('v3').split('\n').slice(1, 4);
  const [first = '', second = ''] = bytes;
  expect(parseCapture(['a packet', ...bytes].join('\n'))).toHaveLength(1);
  expect(parseCapture(['a packet', first, second].join('\n'))).toEqual([]);
  expect(parseCapture(['a packet', first].join('\n'))).toEqual([]);
  expect(
    parseCapture(['another protocol', first.replace('ff70', 'ff06'), ...bytes.slice(1)].join('\n')),
  ).toEqual([]);
  expect(parseCapture('')).toEqual([]);
});
