import { type Endpoint, formatEndpoint } from '../../lib/address/endpoint.ts';
import { VipnatError } from '../../lib/text/errors.ts';
import { findKeepalived } from '../../lib/keepalived/find.ts';
import { type Kernel } from '../../lib/kernel/port.ts';
import { type Config } from '../../config/config.ts';
import { locateKeepalivedFile } from '../../lib/keepalived/serving-file.ts';
import { type StatusFindings } from './host-status.ts';

/** What a look does not see: connections, and keepalived. */
export async function readLiveDetails(
  kernel: Pick<Kernel, 'countFlows'>,
  { vips, runDir }: Pick<Config, 'vips' | 'runDir'>,
): Promise<Pick<StatusFindings, 'flows' | 'keepalived'>> {
  const [flows, keepalived] = await Promise.all([
    Promise.all(vips.map((vip) => countFlows(kernel, vip))),
    Promise.all(
      vips.map(
        async ({ address }) =>
          [address, await findKeepalived(address, locateKeepalivedFile(runDir))] as const,
      ),
    ),
  ]);
  return { flows: new Map(flows), keepalived: new Map(keepalived) };
}

/** Where connections cannot be counted, all else is told. */
async function countFlows(
  kernel: Pick<Kernel, 'countFlows'>,
  vip: Endpoint,
): Promise<readonly [string, ReadonlyMap<string, number> | null]> {
  const counts = await kernel.countFlows(vip).catch((error: unknown) => {
    if (error instanceof VipnatError) return null;
    throw error;
  });
  return [formatEndpoint(vip), counts];
}
