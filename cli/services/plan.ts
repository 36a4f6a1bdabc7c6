import { planServices, inspectBalancer } from '../../balancer/main.ts';
import type { Config } from '../../config/options.ts';
import type { Family } from '../../lib/net.ts';
import { isUsed } from '../../lib/api/balancer.ts';
import { findRoute } from '../../lib/kubernetes/route.ts';
import { nameNode } from '../../config/load.ts';
import { familyToNft } from '../../lib/kernel/port.ts';
import { VipnatError } from '../../lib/errors.ts';

/** What the balancer of this host would write, and what a person has to know of it. */
interface ServicesPlanReading {
  /** Null without Services here, and where the API could not be asked. */
  readonly plan: Awaited<ReturnType<typeof planServices>> | null;
  /** Lines without a newline, for standard error. */
  readonly notes: readonly string[];
}

/** Compares the tables of this host with the API, of one family or of both. Never rejects for what the host is like. */
export async function readServicesPlan(config: Config, family: Family | null): Promise<ServicesPlanReading> {
  const host = await inspectBalancer();
  if (!isUsed(host)) return { plan: null, notes: [] };
  const route = findRoute({ ...config, vips: [] });
  if (route === null) {
    return { plan: null, notes: ['Services: not planned, because the Kubernetes API needs --kubeconfig.'] };
  }
  try {
    const { services, commands } = await planServices(host, route, nameNode(config));
    const own = commands.filter(
      (line) => family === null || line.includes(` ${familyToNft[family]} vipnat-lb`),
    );
    const detail = `The tables of ${services} Service${services === 1 ? '' : 's'} are in sync. Nothing to change.`;
    return { plan: { services, commands: own }, notes: own.length === 0 ? [detail] : [] };
  } catch (error) {
    if (!(error instanceof VipnatError)) throw error;
    return { plan: null, notes: [`[${error.code}] Services: not planned: ${error.message}`] };
  }
}
