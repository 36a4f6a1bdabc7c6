import { describe, expect, test } from '@jest/globals';
import { parseAddress } from '../../../../lib/address/address.ts';

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

  test('canonical text is read as itself', () => {
    const address = parseAddress('2001:DB8::A:0');
    expect(parseAddress(address?.text ?? '')).toEqual(address);
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
