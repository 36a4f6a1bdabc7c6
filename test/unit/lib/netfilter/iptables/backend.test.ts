import { describe, expect, test } from '@jest/globals';
import { type Backend } from '../../../../../lib/kernel/port.ts';
import { chooseBackend } from '../../../../../lib/netfilter/iptables/backend.ts';
import { type Ruleset, type TableName } from '../../../../../lib/netfilter/iptables/ruleset.ts';

function rulesetOf(backend: Backend, table: TableName, chains: Record<string, string[]>): Ruleset {
  return {
    family: 'ipv4',
    backend,
    tables: new Map([[table, new Map(Object.entries(chains))]]),
    forwardPolicy: null,
  };
}

const legacyRules = rulesetOf('legacy', 'filter', { INPUT: ['-j ACCEPT', '-p udp -j DROP'] });
const empty = rulesetOf('nft', 'mangle', {});

describe('the backend', () => {
  test('is nft on a host without any rules', () => {
    expect(chooseBackend([empty], 'auto', null)).toEqual({ value: 'nft', seenIn: 'the default' });
  });

  test('is the one asked for, whatever is seen', () => {
    const hint = rulesetOf('nft', 'mangle', { 'KUBE-IPTABLES-HINT': [] });
    expect(chooseBackend([hint], 'legacy', 'nft')).toEqual({ value: 'legacy', seenIn: '--iptables' });
  });

  test("is where kube-proxy's live rule is, before any hint: a jump into its chain is possible nowhere else", () => {
    const hint = rulesetOf('nft', 'mangle', { 'KUBE-IPTABLES-HINT': [] });
    expect(chooseBackend([hint], 'auto', 'legacy').value).toBe('legacy');
  });

  test.each(['KUBE-IPTABLES-HINT', 'KUBE-KUBELET-CANARY', 'KUBE-PROXY-CANARY'])(
    'is where mangle has %s, before the number of rules',
    (chain) => {
      const nft = rulesetOf('nft', 'mangle', { [chain]: [] });
      expect(chooseBackend([nft, legacyRules], 'auto', null)).toEqual({
        value: 'nft',
        seenIn: `mangle has ${chain}`,
      });
      const legacy = rulesetOf('legacy', 'mangle', { [chain]: [] });
      expect(chooseBackend([legacy, empty], 'auto', null).value).toBe('legacy');
    },
  );

  test("kubelet's hint counts before kube-proxy's canary", () => {
    const hint = rulesetOf('legacy', 'mangle', { 'KUBE-KUBELET-CANARY': [] });
    const canary = rulesetOf('nft', 'mangle', { 'KUBE-PROXY-CANARY': [] });
    expect(chooseBackend([canary, hint], 'auto', null).value).toBe('legacy');
  });

  test('a hint counts in the table mangle only', () => {
    const elsewhere = rulesetOf('legacy', 'filter', { 'KUBE-IPTABLES-HINT': [] });
    expect(chooseBackend([elsewhere], 'auto', null).value).toBe('nft');
  });

  test('is the one with more rules when nothing else tells', () => {
    expect(chooseBackend([legacyRules, empty], 'auto', null)).toEqual({
      value: 'legacy',
      seenIn: '2 more rules than in nft',
    });
    const more = rulesetOf('nft', 'filter', { INPUT: ['-j LOG', '-j LOG'] });
    expect(chooseBackend([legacyRules, more], 'auto', null).value).toBe('nft');
  });

  test('does not count our own rules: writing them must not change the choice', () => {
    const own = rulesetOf('nft', 'nat', {
      VIPNAT: ['-j ACCEPT', '-j ACCEPT', '-j ACCEPT'],
      OUTPUT: ['-m comment --comment "vipnat:of-an-older-version" -j ACCEPT', '-j VIPNAT'],
    });
    expect(chooseBackend([legacyRules, own], 'auto', null).value).toBe('legacy');
  });
});
