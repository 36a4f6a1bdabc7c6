import type { FakeKernel } from '../../../support/fakes/kernel.ts';
import type { Config } from '../../../../config/options.ts';
import {
  type Dialect,
  describeUnread,
  type IptablesDialect,
  iptablesDialects,
} from '../../../../lib/kernel/port.ts';
import { type Observation, interpret } from '../../../../agent/observe/observe.ts';
import { everything } from '../../../../agent/read-host.ts';
import { ordinaryConfig } from '../../../support/agent/running-agent.ts';
import { describe, test, expect } from '@jest/globals';
import { restoreCaptures, lookOnce } from '../../../support/agent/captured-host.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { emptyState } from '../../../../agent/decide/decision.ts';
import type { TableName, Ruleset } from '../../../../lib/iptables/rules.ts';
import { type IptablesDialectEvidence, chooseIptablesDialect } from '../../../../agent/observe/dialect.ts';

const nftHost = ['iptables-nft-save.three-endpoints.txt'];
const legacyHost = ['iptables-legacy-save.three-endpoints.txt'];

async function observe(
  kernel: FakeKernel,
  given: { config?: Partial<Config>; asked?: string | null; before?: Dialect } = {},
): Promise<Observation> {
  const config = { ...ordinaryConfig, ...given.config };
  return interpret(await kernel.read(everything), given.asked ?? null, config, given.before);
}

const codesOf = ({ unread }: Observation) =>
  unread.map(({ family, dialect, code }) => [family, dialect, code]);

describe('rules that cannot be read', () => {
  test.each([
    ['iptables-legacy-save', ['ipv4', 'legacy']],
    ['ip6tables-nft-save', ['ipv6', 'nft']],
    ['ip6tables-legacy-save', ['ipv6', 'legacy']],
  ])('are told, and no more, where nothing rests on them: %s', async (tool, [family, backend]) => {
    for (const code of ['TOOL_MISSING', 'TOOL_FAILED', 'TOOL_NOT_PERMITTED'] as const) {
      const kernel = restoreCaptures(nftHost);
      kernel.faults.failNext({ tool, code });
      const observation = await observe(kernel);
      expect(codesOf(observation)).toEqual([[family, backend, code]]);
      expect(observation.dialect.value).toBe('nft');
    }
  });

  test('are the reason to write nothing where rules are written to them (I1)', async () => {
    for (const code of ['TOOL_MISSING', 'TOOL_FAILED', 'TOOL_NOT_PERMITTED'] as const) {
      const kernel = restoreCaptures(nftHost);
      kernel.faults.failNext({ tool: 'iptables-nft-save', code });
      await expect(observe(kernel)).rejects.toMatchObject({ code });
    }
  });

  test.each(['nat', 'filter'])('in %s alone are as good as all of them', async (table) => {
    const kernel = restoreCaptures(nftHost);
    kernel.faults.spoilTable('iptables-nft-save', table);
    await expect(observe(kernel)).rejects.toMatchObject({ code: 'TOOL_FAILED' });
  });

  test('in mangle, where no rule of ours is, are told', async () => {
    const kernel = restoreCaptures(nftHost);
    kernel.faults.spoilTable('iptables-nft-save', 'mangle');
    expect((await observe(kernel)).unread).toMatchObject([{ tables: ['mangle'] }]);
  });

  test('count in the families of the VIPs', async () => {
    const vips = [toEndpoint('[fd00::50]:6443')];
    const kernel = restoreCaptures([]);
    kernel.faults.failNext({ tool: 'iptables-nft-save', code: 'TOOL_FAILED' });
    expect(codesOf(await observe(kernel, { config: { vips } }))).toEqual([['ipv4', 'nft', 'TOOL_FAILED']]);
    kernel.faults.failNext({ tool: 'ip6tables-nft-save', code: 'TOOL_FAILED' });
    await expect(observe(kernel, { config: { vips } })).rejects.toMatchObject({ code: 'TOOL_FAILED' });
  });

  test('are neither written nor taken for absent: the other tables of their backend are cleaned all the same', async () => {
    const leftover = '*nat\n:VIPNAT - [0:0]\nCOMMIT\n*filter\n:VIPNAT-FORWARD - [0:0]\nCOMMIT\n';
    const kernel = restoreCaptures(nftHost);
    kernel.run('ipv4', 'legacy', leftover);
    kernel.faults.spoilTable('iptables-legacy-save', 'nat');
    const { plan } = await lookOnce(kernel, ordinaryConfig);
    const legacy = plan.transactions.find(({ dialect }) => dialect === 'legacy');
    expect(legacy?.input).toBe('*filter\n:VIPNAT-FORWARD - [0:0]\n-X VIPNAT-FORWARD\nCOMMIT\n');
    await kernel.apply(plan.transactions[0] ?? { family: 'ipv4', dialect: 'nft', input: '' });
    expect(kernel.breaches).toEqual([]);
  });
});

describe('what the backend is, while nft cannot be read', () => {
  const spoil = (kernel: FakeKernel, code: 'NF_TABLES_MISSING' | 'TOOL_FAILED' = 'NF_TABLES_MISSING') => {
    for (const tool of ['iptables-nft-save', 'ip6tables-nft-save', 'nft', 'nft'])
      kernel.faults.failNext({ tool, code });
    return kernel;
  };

  test.each(['auto', 'legacy'] as const)("is legacy where kube-proxy's rules are (%s)", async (iptables) => {
    const observation = await observe(spoil(restoreCaptures(legacyHost)), { config: { iptables } });
    expect(observation).toMatchObject({ dialect: { value: 'legacy' }, proxyMode: { value: 'iptables' } });
  });

  test('is legacy where the kernel has no nf_tables', async () => {
    expect((await observe(spoil(restoreCaptures([])))).dialect.value).toBe('legacy');
  });

  test('is not known where kube-proxy may be in it (I1)', async () => {
    const kernel = spoil(restoreCaptures([]), 'TOOL_FAILED');
    await expect(observe(kernel)).rejects.toMatchObject({ code: 'TOOL_FAILED' });
  });

  test('does not change: rules that were written to it stay alone (I1)', async () => {
    const kernel = restoreCaptures(legacyHost);
    kernel.faults.failNext({ tool: 'iptables-nft-save', code: 'TOOL_FAILED' });
    await expect(observe(kernel, { before: 'nft' })).rejects.toMatchObject({ code: 'TOOL_FAILED' });
  });
});

test('a legacy backend that vanishes is not left for nft by a process that wrote to it', async () => {
  const kernel = restoreCaptures([]);
  kernel.faults.failNext({ tool: 'iptables-legacy-save', code: 'TOOL_MISSING' });
  await expect(observe(kernel, { before: 'legacy' })).rejects.toMatchObject({ code: 'TOOL_MISSING' });
  expect((await lookOnce(kernel, ordinaryConfig, { memory: emptyState })).memory.dialect).toBe('nft');
});

describe("kube-proxy's nftables rules that cannot be read", () => {
  const spoilt = () => {
    const kernel = restoreCaptures([]);
    kernel.faults.printNext('nft', 'nobody expects this');
    return kernel;
  };

  test.each([null, 'nftables'])('are needed where kube-proxy answers %s about its mode', async (asked) => {
    await expect(observe(spoilt(), { asked })).rejects.toMatchObject({ code: 'TOOL_OUTPUT_UNEXPECTED' });
  });

  test('are told where it says another', async () => {
    const { unread } = await observe(spoilt(), { asked: 'ipvs' });
    expect(unread.map(({ tables }) => tables)).toContainEqual(['kube-proxy']);
  });
});

test('what is unread is told once for each reason, with what that means', async () => {
  const kernel = restoreCaptures(nftHost);
  for (const tool of ['ip6tables-legacy-save', 'iptables-legacy-save'])
    kernel.faults.failNext({ tool, code: 'TOOL_MISSING' });
  kernel.faults.spoilTable('ip6tables-nft-save', 'mangle');
  const { unread } = await observe(kernel);
  expect(describeUnread(unread)).toEqual([
    {
      code: 'TOOL_MISSING',
      text: "vipnat cannot read iptables-legacy, ip6tables-legacy (iptables-legacy-save failed as the test asked). vipnat does not see there: vipnat's earlier rules, kube-proxy's rules, a FORWARD chain that drops packets",
    },
    {
      code: 'TOOL_FAILED',
      text: "vipnat cannot read mangle of ip6tables-nft (ip6tables-nft-save failed for the table mangle). vipnat does not see there: kubelet's hint at the iptables variant in use",
    },
  ]);
});

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
  ...{ entryRule: null, before: null, candidates: iptablesDialects, unread: [] },
  ...changes,
});

const empty = rulesetOf('nft', 'mangle', {});
const legacyRules = rulesetOf('legacy', 'filter', { INPUT: ['-j ACCEPT', '-p udp -j DROP'] });
const asManyRules = rulesetOf('nft', 'filter', { INPUT: ['-j LOG', '-j LOG'] });
const ownRules = rulesetOf('nft', 'nat', {
  VIPNAT: ['-j ACCEPT', '-j ACCEPT', '-j ACCEPT'],
  OUTPUT: ['-m comment --comment "vipnat:of-an-older-version" -j ACCEPT', '-j VIPNAT'],
});
const kubeletHint = 'KUBE-IPTABLES-HINT';
const [kubeletCanary, proxyCanary] = ['KUBE-KUBELET-CANARY', 'KUBE-PROXY-CANARY'];
const hint = (dialect: IptablesDialect, chain = kubeletHint) => rulesetOf(dialect, 'mangle', { [chain]: [] });
const unread = ['nft'] as const;
const isLive = "legacy: it has kube-proxy's rules";

type Row = [string, readonly Ruleset[], Partial<IptablesDialectEvidence>, string];

describe('the backend', () => {
  test.each<Row>([
    ['is nft on a host without any rules', [empty], {}, 'nft: the default'],
    // A jump into its chain is possible nowhere else.
    ["is where kube-proxy's live rule is, before any hint", [hint('nft')], { entryRule: 'legacy' }, isLive],
    ...[kubeletHint, kubeletCanary, proxyCanary].flatMap((chain): Row[] => [
      [`is nft by ${chain} before rules`, [hint('nft', chain), legacyRules], {}, `nft: mangle has ${chain}`],
      [`is legacy by ${chain}`, [hint('legacy', chain), empty], {}, `legacy: mangle has ${chain}`],
    ]),
    [
      "is where kubelet's hint is, before kube-proxy's canary",
      [hint('nft', proxyCanary), hint('legacy', kubeletCanary)],
      {},
      'legacy: ',
    ],
    ['is no hint’s of another table', [rulesetOf('legacy', 'filter', { [kubeletHint]: [] })], {}, 'nft: '],
    ['is the one with more rules', [legacyRules, empty], {}, 'legacy: it has 2 more rules than nft'],
    ['is nft where there are as many', [legacyRules, asManyRules], {}, 'nft: '],
    // Writing them must not change the choice.
    ['does not come by our own rules', [legacyRules, ownRules], {}, 'legacy: '],
    ['is nft while that cannot be read', [legacyRules], { unread }, 'nft: '],
    ['is where kube-proxy is seen then', [legacyRules], { unread, entryRule: 'legacy' }, 'legacy: '],
    ['is legacy without nft', [], { candidates: ['legacy'] }, 'legacy: this host has no other iptables'],
  ])('%s', (_, rulesets, evidence, expected) => {
    const { value, seenIn } = chooseIptablesDialect(rulesets, 'auto', seen(evidence));
    expect(`${value}: ${seenIn}`.slice(0, expected.endsWith(': ') ? expected.length : undefined)).toBe(
      expected,
    );
  });

  test('is the one asked for, whatever is seen', () => {
    expect(chooseIptablesDialect([hint('nft')], 'legacy', seen({ entryRule: 'nft' }))).toEqual({
      value: 'legacy',
      seenIn: '--iptables',
    });
  });

  test.each(iptablesDialects)('stays %s while a part is unread, whatever the rest would say', (before) => {
    const other = before === 'nft' ? 'legacy' : 'nft';
    for (const unread of iptablesDialects) {
      const result = seen({ before, entryRule: other, unread: [unread] });
      expect(chooseIptablesDialect([legacyRules], 'auto', result).value).toBe(before);
    }
    expect(chooseIptablesDialect([], 'auto', seen({ before, entryRule: other })).value).toBe(other);
  });
});
