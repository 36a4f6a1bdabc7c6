import { ordinaryConfig } from '../../../support/agent/running-agent.ts';
import type { Assessment } from '../../../../agent/decide/decision.ts';
import { restoreCaptures, lookOnce } from '../../../support/agent/captured-host.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { applyPlan } from '../../../../agent/sync.ts';

/** A host with rules for the ordinary virtual IP and for others, as one sees it who names only the ordinary one. */
export async function assessUnnamed(
  others: readonly string[],
  config: typeof ordinaryConfig = ordinaryConfig,
): Promise<Assessment> {
  const kernel = restoreCaptures(['iptables-nft-save.three-endpoints.txt']);
  const vips = [...config.vips, ...others.map(toEndpoint)];
  await applyPlan(kernel, (await lookOnce(kernel, { ...config, vips })).plan);
  return await lookOnce(kernel, config);
}
