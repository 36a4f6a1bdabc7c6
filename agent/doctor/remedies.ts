import { families, type Family } from '../../lib/address/address.ts';
import { type Endpoint } from '../../lib/address/endpoint.ts';
import { type HostProcess } from '../../lib/kernel/processes.ts';
import { type Config } from '../config/config.ts';
import { quoteText } from '../config/setting.ts';
import { type NotChecked } from './fact.ts';
import { type HostFacts } from './host-facts.ts';

/** What puts vipnat's rules right: a running agent does it when it starts anew, without one a single run does. */
export function converge({ agent, flags, units }: Pick<HostFacts, 'agent' | 'flags' | 'units'>): string[] {
  if (agent !== null) return restartAgent({ units });
  return ['# with every --vip that is balanced here: the rules of others go', `vipnat run --once ${flags}`];
}

/** Starts the agent anew, as whoever started it does. */
export function restartAgent({ units }: Pick<HostFacts, 'units'>): string[] {
  if (units.has('vipnat')) return ['systemctl restart vipnat'];
  return [
    '# no unit of vipnat is here. The kubelet starts its container anew:',
    "crictl stop $(crictl ps --name '^vipnat$' -q)",
  ];
}

/** The package, where this host has Debian's tool for it. */
export function install(name: string, { tools }: Pick<HostFacts, 'tools'>): string[] {
  return [
    tools.has('apt-get') ? `apt-get install ${name}` : `# install what Debian calls the package ${name}`,
  ];
}

/**
 * Whether an agent balances this VIP now: only then nobody misses who served it before. Rules that differ, or a VIP that is
 * left to its holder, are no such thing.
 */
export function isBalancedHere({ address, port }: Endpoint, { agent, assessment }: HostFacts): boolean {
  if (agent === null || 'unknown' in assessment) return false;
  const { decisions, plan } = assessment.value;
  const own = decisions.find(({ vip }) => vip.address === address && vip.port === port);
  return (
    own !== undefined && own.way !== 'passthrough' && plan.tables.every(({ drift }) => drift.length === 0)
  );
}

/** What is said instead of taking away what serves the API. */
export const migrateFirst: readonly string[] = [
  '# leave it: the API may depend on it until an agent balances the VIP. docs/migrate.md has the order',
];

/** The systemd unit that a process belongs to; null for none. */
export function findUnit({ group }: HostProcess): string | null {
  return /\/([\w@.:-]+\.service)$/.exec(group)?.[1] ?? null;
}

/** The families that have a virtual IP. */
export function listFamilies({ vips }: Config): Family[] {
  return families.filter((family) => vips.some((vip) => vip.family === family));
}

/** A process whose network namespace may not be asked for is nobody's fault. */
export function describeElsewhere({ name, pid }: HostProcess): NotChecked {
  return {
    unknown: `whether ${quoteText(name)} (pid ${pid}) is in this network namespace may not be asked: run as root`,
  };
}
