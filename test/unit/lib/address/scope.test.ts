import { expect, test } from '@jest/globals';
import { parseAddress } from '../../../../lib/address/address.ts';
import { classifyAddress } from '../../../../lib/address/scope.ts';

test.each([
  ['10.0.0.50', 'unicast'],
  ['100.64.0.1', 'unicast'],
  ['192.0.2.1', 'unicast'],
  ['8.8.8.8', 'unicast'],
  ['fd00::1', 'unicast'],
  ['2001:db8::1', 'unicast'],
  ['0.0.0.0', 'unspecified'],
  ['::', 'unspecified'],
  ['127.0.0.1', 'loopback'],
  ['127.8.9.10', 'loopback'],
  ['::1', 'loopback'],
  ['169.254.1.1', 'linkLocal'],
  ['fe80::1', 'linkLocal'],
  ['224.0.0.18', 'multicast'],
  ['ff02::12', 'multicast'],
  ['255.255.255.255', 'broadcast'],
  ['::ffff:10.0.0.1', 'ipv4Mapped'],
])('%s is %s', (text, scope) => {
  const address = parseAddress(text);
  expect(address === null ? null : classifyAddress(address)).toBe(scope);
});
