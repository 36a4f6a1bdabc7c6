import { type Address, parseAddress } from '../../../../lib/net.ts';
import { describe, test, expect } from '@jest/globals';
import { computeVrid, parseVrids, parseCapture } from '../../../../lib/keepalived/read.ts';
import { readCapture } from '../../../support/kube-proxy/read-capture.ts';

function parse(text: string): Address {
  const address = parseAddress(text);
  if (address === null) throw new Error(`${text} is no address`);
  return address;
}

describe('computeVrid', () => {
  const vrids = {
    ...{ '10.0.0.50': 51, '10.0.0.0': 1, '10.0.0.254': 255 },
    ...{ 'fd00::32': 51, 'fd00::ab32': 51, 'fd00::': 1, 'fd00::fe': 255 },
  };
  test.each(Object.entries(vrids))('%s gets %i: the last byte plus one', (text, vrid) => {
    expect(computeVrid(parse(text))).toBe(vrid);
  });

  test.each(['10.0.0.255', 'fd00::12ff'])('%s is refused, with the way out', (text) => {
    const message = expect.stringMatching(new RegExp(`${text}.*--vrid`));
    expect(() => computeVrid(parse(text))).toThrow(
      expect.objectContaining({ code: 'CONFIG_INVALID', message }),
    );
  });
});

const textToVrids = {
  ...{ '51': [51], '253-255': [253, 254, 255], '255-300': [255] },
  ...{ '60-51': [], '0': [], '': [], '51-': [], a: [] },
};
test.each(Object.entries(textToVrids))('the VRIDs of "%s" are %j', (text, vrids) => {
  expect(parseVrids(text)).toEqual(vrids);
});

const read = (name: string) => readCapture(`tcpdump-vrrp.${name}.txt`);

test.each([
  ['v2', { family: 'ipv4', source: '10.77.0.11', vrid: 51, addresses: ['10.77.0.50', '10.77.0.51'] }],
  ['v3', { family: 'ipv4', source: '10.77.0.11', vrid: 51, addresses: ['10.77.0.50', '10.77.0.51'] }],
  ['v6', { family: 'ipv6', source: 'fe80::e4b6:d7ff:fee2:3bb6', vrid: 81, addresses: ['fd77::50'] }],
])('adverts of keepalived 2.2.7, as tcpdump saw them: %s', (name, advert) => {
  expect(parseCapture(read(name))).toEqual(Array.from({ length: 3 }, () => ({ ...advert, priority: 110 })));
});

test('whatever is no whole advert is left out', () => {
  const [first = '', second = '', third = ''] = read('v3').split('\n').slice(1, 4);
  const count = (...lines: readonly string[]) => parseCapture(lines.join('\n')).length;
  expect([count('a packet', first, second, third), count('a packet', first, second)]).toEqual([1, 0]);
  expect(count('a packet', first)).toBe(0);
  expect(count('another protocol', first.replace('ff70', 'ff06'), second, third)).toBe(0);
  expect(count('')).toBe(0);
});
