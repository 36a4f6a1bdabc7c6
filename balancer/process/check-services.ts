import { systemClock } from '../../lib/control/clock.ts';
import { type ApiRoute } from '../../lib/kubernetes/route.ts';
import { nameTable } from '../../lib/services/balancer-table.ts';
import { findTrouble, type HostBalancer, isUsed } from '../../lib/services/host-balancer.ts';
import { VipnatError } from '../../lib/text/errors.ts';
import { planTables } from './plan-tables.ts';

/** How Services on a host differ from what they should be. */
export interface ServicesDrift {
  /** What differs, a clause each. */
  readonly drift: readonly string[];
  /** Commands of nft that the balancer would run, a line each; null where the tables were not compared with the API. */
  readonly commands: readonly string[] | null;
  /** Why something was not looked at, a clause each. */
  readonly unread: readonly string[];
}

/** How the API is asked; no route without credentials. */
export interface CheckNeeds {
  readonly route: ApiRoute | null;
  readonly node: string;
}

/** Judges this host, and compares its tables with the API where there are credentials. Never rejects for what the host is like. */
export async function findServicesDrift(host: HostBalancer, needs: CheckNeeds): Promise<ServicesDrift> {
  const compared = await compare(host, needs);
  const trouble = findTrouble(host);
  return {
    ...compared,
    drift: [
      ...host.tables
        .filter(({ aliveSeconds }) => aliveSeconds === null)
        .map(({ family }) => `table ${nameTable(family)} does not count: no balancer renewed it for 30 s`),
      ...(trouble === null ? [] : [trouble]),
      ...describeCommands(compared.commands ?? []),
    ],
    unread: [...(host.unread === null ? [] : [host.unread.message]), ...compared.unread],
  };
}

async function compare(
  host: HostBalancer,
  { route, node }: CheckNeeds,
): Promise<Pick<ServicesDrift, 'commands' | 'unread'>> {
  if (!isUsed(host)) return { commands: null, unread: [] };
  if (route === null) {
    return {
      commands: null,
      unread: ['the tables were not compared with the Kubernetes API: give --kubeconfig'],
    };
  }
  try {
    const { commands } = await planTables({ route, clock: systemClock, node }, host.balancer !== null);
    return { commands, unread: [] };
  } catch (error) {
    if (!(error instanceof VipnatError)) throw error;
    return {
      commands: null,
      unread: [`the tables were not compared with the Kubernetes API: ${error.message}`],
    };
  }
}

function describeCommands(commands: readonly string[]): string[] {
  if (commands.length === 0) return [];
  const names = [...new Set(commands.flatMap((line) => /\b(ip6? vipnat-lb)\b/.exec(line)?.[1] ?? []))];
  const count = commands.length === 1 ? 'command' : 'commands';
  return [
    `${names.join(', ')}: ${commands.length} ${count} of nft between the table and what the API asks for`,
  ];
}
