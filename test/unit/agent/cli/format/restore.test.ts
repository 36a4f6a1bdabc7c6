import { describe, expect, test } from '@jest/globals';
import { formatNft, formatRestore } from '../../../../../agent/cli/format/restore.ts';
import { type Config } from '../../../../../agent/config/config.ts';
import { planOffline } from '../../../../../agent/offline.ts';
import { toEndpoint } from '../../../../fakes/endpoints.ts';
import { lookOnce, restoreCaptures } from '../../captured-host.ts';
import { ordinaryConfig } from '../../running-agent.ts';

const offline: Config = {
  ...ordinaryConfig,
  vips: [...ordinaryConfig.vips, toEndpoint('[fd00::50]:6443')],
  proxyMode: 'iptables',
};
const apiservers = ['10.77.0.11:6443', '[fd00:77::11]:6443'].map(toEndpoint);

describe('the plan as restore scripts', () => {
  test('is what the tools are given, each after the name and flags of its tool', () => {
    const state = planOffline(offline);
    const text = formatRestore(state);
    const withoutComments = text.replaceAll(/^#.*\n/gm, '');
    expect(withoutComments).toBe(state.plan.transactions.map(({ input }) => input).join(''));
    expect(text.match(/^# ip6?tables.*$/gm)).toEqual([
      '# iptables-nft-restore --noflush',
      '# ip6tables-nft-restore --noflush',
    ]);
  });

  test("says that it needs kube-proxy's chain where it joins that", () => {
    expect(formatRestore(planOffline(offline))).toContain(
      '# joins KUBE-SVC-NPX46M4PTMTKRN6Y, which kube-proxy makes',
    );
    const direct = planOffline({ ...offline, proxyMode: 'none', endpoints: apiservers });
    expect(formatRestore(direct)).not.toContain('KUBE-');
  });

  test('is nothing when all is in sync', () => {
    expect(formatRestore({ ...planOffline(offline), plan: { tables: [], transactions: [] } })).toBe('');
  });
});

describe('the balancing as an nftables table', () => {
  test('has one table for each family', () => {
    const { decisions } = planOffline({ ...offline, proxyMode: 'none', endpoints: apiservers });
    const text = formatNft(decisions, offline);
    expect(text.match(/^table ip6? vipnat \{$/gm)).toEqual(['table ip vipnat {', 'table ip6 vipnat {']);
  });

  test('goes straight to the apiservers that kube-proxy has', async () => {
    const kernel = restoreCaptures(['iptables-nft-save.three-endpoints.txt']);
    const { decisions } = await lookOnce(kernel, ordinaryConfig);
    const text = formatNft(decisions, ordinaryConfig);
    for (const host of [11, 12, 13]) expect(text).toContain(` dnat ip to 10.77.0.${host}:6443 `);
    expect(text).not.toContain('KUBE-');
  });

  test('cannot be had without apiservers, and says what to add', () => {
    const { decisions } = planOffline(offline);
    expect(() => formatNft(decisions, offline)).toThrow(
      '10.0.0.50:6443 needs the apiservers: add --endpoints',
    );
    expect(() => formatNft(decisions, offline)).toThrow(expect.objectContaining({ code: 'CONFIG_INVALID' }));
  });

  test('leaves a VIP to its holder that is left to it', () => {
    const decisions = planOffline({ ...offline, proxyMode: 'none' }).decisions.map((decision) => ({
      ...decision,
      way: 'passthrough' as const,
    }));
    expect(formatNft(decisions, offline)).not.toMatch(/dnat ip6? to/);
  });

  test('masquerades unless nobody shall', () => {
    const { decisions } = planOffline({ ...offline, proxyMode: 'none', endpoints: apiservers });
    expect(formatNft(decisions, { ...offline, masquerade: 'kube-mark' })).toContain(' masquerade ');
    expect(formatNft(decisions, { ...offline, masquerade: 'none' })).not.toContain(' masquerade ');
  });
});
