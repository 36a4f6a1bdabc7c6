import { describe, expect, test } from '@jest/globals';
import { type IptablesDialect, iptablesDialects } from '../../../../lib/kernel/port.ts';
import {
  type IptablesDialectEvidence,
  chooseIptablesDialect,
} from '../../../../agent/observe/choose-iptables-dialect.ts';
import { type Ruleset, type TableName } from '../../../../lib/netfilter/iptables/ruleset.ts';

function rulesetOf(dialect: IptablesDialect, table: TableName, chains: Record<string, string[]>): Ruleset {
  return {
    family: 'ipv4',
    dialect,
    tables: new Map([[table, new Map(Object.entries(chains))]]),
    forwardPolicy: null,
    unread: [],
  };
}

const seen = (changes: Partial<IptablesDialectEvidence> = {}): IptablesDialectEvidence => ({
  ...{ liveEdge: null, before: null, candidates: iptablesDialects, unread: [] },
  ...changes,
});

const legacyRules = rulesetOf('legacy', 'filter', { INPUT: ['-j ACCEPT', '-p udp -j DROP'] });
const empty = rulesetOf('nft', 'mangle', {});

describe('the backend', () => {
  test('is nft on a host without any rules', () => {
    expect(chooseIptablesDialect([empty], 'auto', seen())).toEqual({ value: 'nft', seenIn: 'the default' });
  });

  test('is the one asked for, whatever is seen', () => {
    const hint = rulesetOf('nft', 'mangle', { 'KUBE-IPTABLES-HINT': [] });
    expect(chooseIptablesDialect([hint], 'legacy', seen({ liveEdge: 'nft' }))).toEqual({
      value: 'legacy',
      seenIn: '--iptables',
    });
  });

  test("is where kube-proxy's live rule is, before any hint: a jump into its chain is possible nowhere else", () => {
    const hint = rulesetOf('nft', 'mangle', { 'KUBE-IPTABLES-HINT': [] });
    expect(chooseIptablesDialect([hint], 'auto', seen({ liveEdge: 'legacy' })).value).toBe('legacy');
  });

  test.each(['KUBE-IPTABLES-HINT', 'KUBE-KUBELET-CANARY', 'KUBE-PROXY-CANARY'])(
    'is where mangle has %s, before the number of rules',
    (chain) => {
      const nft = rulesetOf('nft', 'mangle', { [chain]: [] });
      expect(chooseIptablesDialect([nft, legacyRules], 'auto', seen())).toEqual({
        value: 'nft',
        seenIn: `mangle has ${chain}`,
      });
      const legacy = rulesetOf('legacy', 'mangle', { [chain]: [] });
      expect(chooseIptablesDialect([legacy, empty], 'auto', seen()).value).toBe('legacy');
    },
  );

  test("kubelet's hint counts before kube-proxy's canary", () => {
    const hint = rulesetOf('legacy', 'mangle', { 'KUBE-KUBELET-CANARY': [] });
    const canary = rulesetOf('nft', 'mangle', { 'KUBE-PROXY-CANARY': [] });
    expect(chooseIptablesDialect([canary, hint], 'auto', seen()).value).toBe('legacy');
  });

  test('a hint counts in the table mangle only', () => {
    const elsewhere = rulesetOf('legacy', 'filter', { 'KUBE-IPTABLES-HINT': [] });
    expect(chooseIptablesDialect([elsewhere], 'auto', seen()).value).toBe('nft');
  });

  test('is the one with more rules when nothing else tells', () => {
    expect(chooseIptablesDialect([legacyRules, empty], 'auto', seen())).toEqual({
      value: 'legacy',
      seenIn: 'it has 2 more rules than nft',
    });
    const more = rulesetOf('nft', 'filter', { INPUT: ['-j LOG', '-j LOG'] });
    expect(chooseIptablesDialect([legacyRules, more], 'auto', seen()).value).toBe('nft');
  });

  test('does not count our own rules: writing them must not change the choice', () => {
    const own = rulesetOf('nft', 'nat', {
      VIPNAT: ['-j ACCEPT', '-j ACCEPT', '-j ACCEPT'],
      OUTPUT: ['-m comment --comment "vipnat:of-an-older-version" -j ACCEPT', '-j VIPNAT'],
    });
    expect(chooseIptablesDialect([legacyRules, own], 'auto', seen()).value).toBe('legacy');
  });

  test('is nft while that cannot be read, unless kube-proxy is seen in the other', () => {
    const unread = ['nft'] as const;
    expect(chooseIptablesDialect([legacyRules], 'auto', seen({ unread })).value).toBe('nft');
    expect(chooseIptablesDialect([legacyRules], 'auto', seen({ unread, liveEdge: 'legacy' })).value).toBe(
      'legacy',
    );
  });

  test('is legacy where there is no nft', () => {
    expect(chooseIptablesDialect([], 'auto', seen({ candidates: ['legacy'] }))).toEqual({
      value: 'legacy',
      seenIn: 'this host has no other iptables',
    });
  });

  test.each(iptablesDialects)('stays %s while a part is unread, whatever the rest would say', (before) => {
    const other = before === 'nft' ? 'legacy' : 'nft';
    for (const unread of iptablesDialects) {
      const result = seen({ before, liveEdge: other, unread: [unread] });
      expect(chooseIptablesDialect([legacyRules], 'auto', result).value).toBe(before);
    }
    expect(chooseIptablesDialect([], 'auto', seen({ before, liveEdge: other })).value).toBe(other);
  });
});
