import { test, expect } from '@jest/globals';
import { renderBaseChains, listBaseChains } from '../../../../lib/kernel/iptables.ts';

test("the kernel's chains of a script are made once each, and without a policy", () => {
  const input = `*nat
:VIPNAT-0123456789 - [0:0]
-A VIPNAT-0123456789 -j RETURN
-I PREROUTING -j VIPNAT-0123456789
-I PREROUTING -j VIPNAT-0123456780
-D OUTPUT -j VIPNAT-0123456780
COMMIT
*filter
-I FORWARD -j VIPNAT-FORWARD
COMMIT
`;
  expect(renderBaseChains('ipv4', listBaseChains(input))).toBe(`add table ip nat
add chain ip nat PREROUTING { type nat hook prerouting priority -100; }
add chain ip nat OUTPUT { type nat hook output priority -100; }
add table ip filter
add chain ip filter FORWARD { type filter hook forward priority 0; }
`);
  expect(renderBaseChains('ipv6', listBaseChains('*filter\n-I FORWARD -j X\nCOMMIT\n'))).toContain(
    'add table ip6 filter\n',
  );
});

test('a script that changes rules of our own chains alone needs none', () => {
  const input =
    '*nat\n:VIPNAT-0123456789 - [0:0]\n-A VIPNAT-0123456789 -j RETURN\n-X VIPNAT-0123456780\nCOMMIT\n';
  expect(listBaseChains(input)).toEqual([]);
});
