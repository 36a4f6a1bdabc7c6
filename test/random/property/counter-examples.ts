import type { Config } from '../../../config/options.ts';
import { ordinaryConfig } from '../../support/agent/running-agent.ts';
import { toEndpoint } from '../../support/fakes/endpoints.ts';
import type { Event } from './hosts.ts';
import type { Balance } from '../../../lib/dialect.ts';

/** A VIP whose connections nobody takes. */
const passing = (vip: string): Balance => ({
  ...{ vip: toEndpoint(vip), masquerade: 'none', route: { kind: 'translate', backends: [] } },
});

const config: Config = { ...ordinaryConfig, vips: [toEndpoint('172.16.64.58:6443')], masquerade: 'none' };

/**
 * Rules of ours were counted when the backend with more rules was chosen: the write into one made the next look
 * choose the other (I7). Found once in 20,000 runs.
 */
export const moreRulesInLegacy = {
  before: [
    {
      does: 'script',
      script: {
        ...{ family: 'ipv4', dialect: 'nft' },
        script: `*nat\n${'-A INPUT -p udp -j ACCEPT\n'.repeat(8)}COMMIT\n`,
      },
    },
    {
      ...{ does: 'agent', dialect: 'legacy' },
      balances: [passing('10.0.0.50:8443'), passing('[fd00::50]:6443')],
    },
  ] satisfies Event[],
  answer: null,
  config,
  wasRunning: false,
  after: [],
};
