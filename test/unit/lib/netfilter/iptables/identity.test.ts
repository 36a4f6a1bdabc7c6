import { describe, expect, test } from '@jest/globals';
import { isOwnChain, isOwnRule, signRules } from '../../../../../lib/netfilter/iptables/identity.ts';

const toFirst = { head: '-p tcp', tail: '-m tcp -j DNAT --to-destination 10.0.0.1:6443' };
const toSecond = { head: '-p tcp', tail: '-m tcp -j DNAT --to-destination 10.0.0.2:6443' };

describe('a signed rule', () => {
  test('carries its id as the first comment, between head and tail', () => {
    const [rule] = signRules('VIPNAT-1', [toFirst]);
    expect(rule?.id).toMatch(/^vipnat:[\w-]{16}$/);
    expect(rule?.text).toBe(`-p tcp -m comment --comment "${rule?.id ?? ''}" ${toFirst.tail}`);
  });

  test('has another id in another chain and in another place', () => {
    const ids = [
      ...signRules('VIPNAT-1', [toFirst, toSecond]),
      ...signRules('VIPNAT-1', [toSecond, toFirst]),
      ...signRules('VIPNAT-2', [toFirst]),
    ].map(({ id }) => id);
    expect(new Set(ids).size).toBe(5);
  });

  test('has the same id every time, so that a later agent knows it', () => {
    // Written by version 0.1.0: a change here makes every agent in the field rewrite all its rules.
    expect(signRules('PREROUTING', [{ head: '', tail: '-j VIPNAT' }])[0]?.id).toBe('vipnat:dMNmRQ-krMw1iNCX');
  });
});

describe('what is ours', () => {
  test.each([
    ['VIPNAT', true],
    ['VIPNAT-POSTROUTING', true],
    ['VIPNAT-0123456789', true],
    ['VIPNATION', false],
    ['KUBE-SERVICES', false],
  ])('chain %s: %s', (name, isOurs) => {
    expect(isOwnChain(name)).toBe(isOurs);
  });

  test.each([
    ['-m comment --comment "vipnat:0123456789abcdef" -j VIPNAT', true],
    ['-m comment --comment "vipnat:of-an-older-version" -j ACCEPT', true],
    ['-d 10.0.0.50/32 -j VIPNAT', true],
    ['-g VIPNAT-POSTROUTING', true],
    ['-m comment --comment "not vipnat: really" -j ACCEPT', false],
    ['-m comment --comment "kubernetes service portals" -j KUBE-SERVICES', false],
    ['-m comment --comment "vipnat:0123456789abcdef\n-X VIPNAT" -j VIPNAT', false],
    ['-j VIPNATION', false],
    ['-m string --string "vipnat:" --algo bm -j DROP', false],
  ])('rule %s: %s', (text, isOurs) => {
    expect(isOwnRule(text)).toBe(isOurs);
  });
});
