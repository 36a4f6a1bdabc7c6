import type { Config } from '../../../../config/options.ts';
import { ordinaryConfig } from '../../../support/agent/running-agent.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { describe, test, expect } from '@jest/globals';
import { selectFamily, formatRestore, formatNft } from '../../../../cli/screens/plan.ts';
import { planOffline } from '../../../../agent/decide/mode.ts';
import { restoreCaptures, lookOnce } from '../../../support/agent/captured-host.ts';
import { findMissingSwitches } from '../../../../agent/forwarding.ts';

const offline: Config = {
  ...ordinaryConfig,
  vips: [...ordinaryConfig.vips, toEndpoint('[fd00::50]:6443')],
  proxyMode: 'iptables',
};
const apiservers = ['10.77.0.11:6443', '[fd00:77::11]:6443'].map(toEndpoint);

describe('the plan as restore scripts', () => {
  test.each([
    ['ipv4', '# iptables-nft-restore --noflush'],
    ['ipv6', '# ip6tables-nft-restore --noflush'],
  ] as const)('is what the tool of %s is given, after its name and flags', (family, head) => {
    const state = selectFamily(planOffline(offline), family);
    const text = formatRestore(state);
    expect(text.replaceAll(/^#.*\n/gm, '')).toBe(state.plan.transactions[0]?.input);
    expect(text.match(/^# ip6?tables.*$/gm)).toEqual([head]);
  });

  test('of two families, or of two backends, is no one stream, and says how to have each', () => {
    const inNft = selectFamily(planOffline(offline), 'ipv4');
    const inLegacy = selectFamily(planOffline({ ...offline, iptables: 'legacy' }), 'ipv4');
    const transactions = [...inNft.plan.transactions, ...inLegacy.plan.transactions];
    for (const [state, tools] of [
      [planOffline(offline), 'ip6tables-nft-restore. Add --family ipv4, then --family ipv6'],
      [
        { ...inNft, plan: { tables: [], transactions } },
        'iptables-legacy-restore. Use --format commands, or give each input of --json to its tool',
      ],
    ] as const) {
      const message = `--format restore prints the input of one tool, but this plan is for iptables-nft-restore and ${tools}`;
      expect(() => formatRestore(state)).toThrow(
        expect.objectContaining({ code: 'CONFIG_INVALID', message }),
      );
    }
  });

  test('of our own tables in two families is one: nft reads both', () => {
    const state = planOffline({ ...offline, iptables: 'none', proxyMode: 'none', endpoints: apiservers });
    expect(formatRestore(state).match(/^# nft -f -$/gm)).toHaveLength(2);
  });

  test("says that it needs kube-proxy's chain where it joins that", () => {
    expect(formatRestore(selectFamily(planOffline(offline), 'ipv4'))).toContain(
      '# jumps to KUBE-SVC-NPX46M4PTMTKRN6Y, a chain of kube-proxy',
    );
    const direct = planOffline({ ...offline, proxyMode: 'none', endpoints: apiservers });
    expect(formatRestore(selectFamily(direct, 'ipv4'))).not.toContain('KUBE-');
  });

  test('is nothing when all is in sync', () => {
    expect(formatRestore({ ...planOffline(offline), plan: { tables: [], transactions: [] } })).toBe('');
  });
});

describe('the balancing as an nftables table', () => {
  test('goes straight to the apiservers that kube-proxy has', async () => {
    const kernel = restoreCaptures(['iptables-nft-save.three-endpoints.txt']);
    const { decisions } = await lookOnce(kernel, ordinaryConfig);
    const text = formatNft(decisions, ordinaryConfig);
    for (const host of [11, 12, 13]) expect(text).toContain(` dnat ip to 10.77.0.${host}:6443 `);
    expect(text).not.toContain('KUBE-');
  });

  test('cannot be had without apiservers, and says what to add', () => {
    const { decisions } = planOffline(offline);
    expect(() => formatNft(decisions, offline)).toThrow('needs the apiservers: add --endpoints');
    expect(() => formatNft(decisions, offline)).toThrow(expect.objectContaining({ code: 'CONFIG_INVALID' }));
  });

  test('leaves a VIP to its holder that is left to it', () => {
    const decisions = planOffline({ ...offline, proxyMode: 'none' }).decisions.map((decision) => ({
      ...decision,
      mode: 'passthrough' as const,
    }));
    expect(formatNft(decisions, offline)).not.toMatch(/dnat ip6? to/);
  });

  test('masquerades unless nobody shall', () => {
    const { decisions } = planOffline({ ...offline, proxyMode: 'none', endpoints: apiservers });
    expect(formatNft(decisions, { ...offline, masquerade: 'kube-mark' })).toContain(' masquerade ');
    expect(formatNft(decisions, { ...offline, masquerade: 'none' })).not.toContain(' masquerade ');
  });
});

test('a plan for one family has its VIPs, its changes and its switches, and nothing of the other', () => {
  const state = {
    ...planOffline(offline),
    missingSwitches: findMissingSwitches(
      { forwarding: { ipv4: false, ipv6: false }, advertised: [] },
      { vips: offline.vips, sysctls: 'set' },
    ),
  };
  const { decisions, plan, missingSwitches } = selectFamily(state, 'ipv6');
  expect(decisions.map(({ vip }) => vip.family)).toEqual(['ipv6']);
  expect(new Set([...plan.tables, ...plan.transactions].map(({ family }) => family))).toEqual(
    new Set(['ipv6']),
  );
  expect(missingSwitches.map(({ family }) => family)).toEqual(['ipv6']);
  expect(selectFamily(state, null)).toBe(state);
});
