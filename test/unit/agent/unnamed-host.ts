import { type Assessment } from '../../../agent/assess.ts';
import { applyPlan } from '../../../agent/look.ts';
import { toEndpoint } from '../../fakes/endpoints.ts';
import { lookOnce, restoreCaptures } from './captured-host.ts';
import { ordinaryConfig } from './running-agent.ts';

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
