import { type Family } from '../../lib/address/address.ts';
import { familyToNft } from '../../lib/kernel/netlink/nft-chains.ts';
import { type Config } from '../../config/config.ts';
import { systemClock } from '../../lib/control/clock.ts';
import { VipnatError } from '../../lib/text/errors.ts';
import { isUsed, readHostBalancer } from '../balancer/host-balancer.ts';
import { planTables, type TablesPlan } from '../balancer/plan-tables.ts';
import { nameNode } from './node-name.ts';
import { findRoute } from './one-shot-host.ts';

/** What the balancer of this host would write, and what a person has to know of it. */
export interface ServicesPlanReading {
  /** Null without Services here, and where the API could not be asked. */
  readonly plan: TablesPlan | null;
  /** Lines without a newline, for standard error. */
  readonly notes: readonly string[];
}

/** Compares the tables of this host with the API, of one family or of both. Never rejects for what the host is like. */
export async function readServicesPlan(config: Config, family: Family | null): Promise<ServicesPlanReading> {
  const host = await readHostBalancer();
  if (!isUsed(host)) return { plan: null, notes: [] };
  const route = findRoute({ ...config, vips: [] });
  if (route === null) {
    return { plan: null, notes: ['Services: not planned, because the Kubernetes API needs --kubeconfig.'] };
  }
  try {
    const node = host.activity?.node ?? nameNode(config);
    const { services, commands } = await planTables(
      { route, clock: systemClock, node },
      host.balancer !== null,
    );
    const own = commands.filter(
      (line) => family === null || line.includes(` ${familyToNft[family]} vipnat-lb`),
    );
    const words = `The tables of ${services} Service${services === 1 ? '' : 's'} are in sync. Nothing to change.`;
    return { plan: { services, commands: own }, notes: own.length === 0 ? [words] : [] };
  } catch (error) {
    if (!(error instanceof VipnatError)) throw error;
    return { plan: null, notes: [`[${error.code}] Services: not planned: ${error.message}`] };
  }
}
