import { describe, expect, test } from '@jest/globals';
import { type Address, parseAddress } from '../../../../lib/address/address.ts';
import { type VipnatError } from '../../../../lib/text/errors.ts';
import { computeVrid, parseVrids } from '../../../../lib/keepalived/vrid.ts';

function parse(text: string): Address {
  const address = parseAddress(text);
  if (address === null) throw new Error(`${text} is no address`);
  return address;
}

describe('computeVrid', () => {
  test.each([
    ['10.0.0.50', 51],
    ['10.0.0.0', 1],
    ['10.0.0.254', 255],
    ['fd00::32', 51],
    ['fd00::ab32', 51],
    ['fd00::', 1],
    ['fd00::fe', 255],
  ])('%s gets %i: the last byte plus one', (text, vrid) => {
    expect(computeVrid(parse(text))).toBe(vrid);
  });

  test.each(['10.0.0.255', 'fd00::12ff'])('%s is refused, with the way out', (text) => {
    let error: VipnatError | undefined;
    try {
      computeVrid(parse(text));
    } catch (thrown) {
      error = thrown as VipnatError;
    }
    expect(error?.code).toBe('CONFIG_INVALID');
    expect(error?.message).toContain(text);
    expect(error?.message).toContain('--vrid');
  });
});

test.each([
  ['51', [51]],
  ['253-255', [253, 254, 255]],
  ['255-300', [255]],
  ['60-51', []],
  ['0', []],
  ['', []],
  ['51-', []],
  ['a', []],
])('the VRIDs of "%s" are %j', (text, vrids) => {
  expect(parseVrids(text)).toEqual(vrids);
});
