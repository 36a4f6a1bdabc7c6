import { describe, expect, test } from '@jest/globals';
import { isRival } from '../../../../../lib/netfilter/iptables/hook-order.ts';

const vips = [
  { family: 'ipv4', address: '10.0.0.50', port: 6443 },
  { family: 'ipv4', address: '10.0.0.51', port: 8443 },
] as const;

describe('a rule before our hook that could take a VIP packet is a rival', () => {
  test.each([
    '-m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
    '-m addrtype --dst-type LOCAL -j DOCKER',
    '-j CNI-HOSTPORT-DNAT',
    '-j STRANGER',
    '-d 10.0.0.50/32 -p tcp -m tcp --dport 6443 -j REDIRECT --to-ports 9445',
    '-d 10.0.0.0/24 -j ACCEPT',
    '-p tcp -m tcp --dport 8000:9000 -j DNAT --to-destination 10.9.9.9',
    '! -d 10.1.0.0/16 -j RETURN',
    '-p 6 -j DROP',
  ])('%s', (text) => {
    expect(isRival(text, vips)).toBe(true);
  });
});

describe('a rule that cannot take one is none', () => {
  test.each([
    '-j LOG --log-prefix "in: "',
    '-j MARK --set-xmark 0x1/0x1',
    '-m comment --comment "counts only"',
    '-d 10.0.0.99/32 -p tcp -m tcp --dport 6443 -j DNAT --to-destination 10.9.9.9',
    '-d 192.168.0.0/16 -j ACCEPT',
    '-p udp -j ACCEPT',
    '-p tcp -m tcp --dport 443 -j REDIRECT --to-ports 9445',
  ])('%s', (text) => {
    expect(isRival(text, vips)).toBe(false);
  });

  test.each(['cali-PREROUTING', 'CILIUM_PRE_nat', 'KUBE-ROUTER-FORWARD'])(
    'the chain %s insists on being first, and may be',
    (chain) => {
      expect(isRival(`-m comment --comment "x" -j ${chain}`, vips)).toBe(false);
    },
  );
});

test('without a VIP nothing is a rival', () => {
  expect(isRival('-j KUBE-SERVICES', [])).toBe(false);
});
