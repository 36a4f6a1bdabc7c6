import type { Config } from '../../../config/options.ts';
import { ordinaryConfig } from '../../support/agent/running-agent.ts';
import { toEndpoint } from '../../support/fakes/endpoints.ts';
import type { Event } from './hosts.ts';

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
        family: 'ipv4',
        dialect: 'nft',
        script: `*nat\n${'-A INPUT -p udp -j ACCEPT\n'.repeat(8)}COMMIT\n`,
      },
    },
    {
      does: 'agent',
      dialect: 'legacy',
      balances: [
        { vip: toEndpoint('10.0.0.50:8443'), masquerade: 'none', route: { kind: 'translate', backends: [] } },
        {
          vip: toEndpoint('[fd00::50]:6443'),
          masquerade: 'none',
          route: { kind: 'translate', backends: [] },
        },
      ],
    },
  ] satisfies Event[],
  answer: null,
  config,
  wasRunning: false,
  after: [],
};
