import { families, type Family } from '../../../lib/address/address.ts';
import { type Endpoint, formatEndpoint } from '../../../lib/address/endpoint.ts';
import { type HostProcess } from '../../../lib/kernel/host/processes.ts';
import { quoteText } from '../../../config/setting.ts';
import { formatRemoveOnly, formatRunOnce, listUnnamedVips } from '../../findings/unnamed-vips.ts';
import { type NotChecked } from '../facts/fact.ts';
import { type HostFacts } from '../facts/host-facts.ts';
import { isBalanced } from '../../../config/way.ts';

/** The facts that what puts the rules right depends on. */
type Convergence = Pick<HostFacts, 'agent' | 'assessment' | 'flags' | 'units'>;

/**
 * What puts vipnat's rules right: a running agent does it when it starts anew, without one a single run does, which keeps
 * the rules of virtual IPs that no --vip names.
 */
export function converge({ agent, assessment, flags, units }: Convergence): string[] {
  if (agent !== null) return restartAgent({ units });
  return [formatRunOnce(flags, findUnnamed(assessment))];
}

/** The same where rules may be left over: whether those of a virtual IP are still wanted, a person has to say. */
export function convergeOrRemove(facts: Convergence): string[] {
  const unnamed = findUnnamed(facts.assessment);
  if (facts.agent !== null || unnamed.length === 0) return converge(facts);
  return [
    `# no --vip names ${unnamed.map(formatEndpoint).join(', ')}, and vipnat has rules for it here`,
    `# if it is still wanted, name it too: ${formatRunOnce(facts.flags, unnamed)}`,
    `# if it is no longer wanted: ${formatRemoveOnly(unnamed)}`,
  ];
}

function findUnnamed(assessment: HostFacts['assessment']): Endpoint[] {
  return 'unknown' in assessment ? [] : listUnnamedVips(assessment.value);
}

/** Starts the agent anew, as whoever started it does. */
export function restartAgent({ units }: Pick<HostFacts, 'units'>): string[] {
  if (units.has('vipnat')) return ['systemctl restart vipnat'];
  return [
    '# this host has no vipnat unit. The kubelet restarts its container:',
    "crictl stop $(crictl ps --name '^vipnat$' -q)",
  ];
}

/** The package, where this host has Debian's tool for it. */
export function install(name: string, { tools }: Pick<HostFacts, 'tools'>): string[] {
  return [
    tools.has('apt-get') ? `apt-get install ${name}` : `# install the package that Debian calls ${name}`,
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
  return own !== undefined && isBalanced(own) && plan.tables.every(({ drift }) => drift.length === 0);
}

/** What is said instead of taking away what serves the API. */
export const migrateFirst: readonly string[] = [
  '# do not stop it: the API may depend on it until an agent balances the VIP. Follow docs/migrate.md',
];

/** The systemd unit that a process belongs to; null for none. */
export function findUnit({ group }: HostProcess): string | null {
  return /\/([\w@.:-]+\.service)$/.exec(group)?.[1] ?? null;
}

/** The families of virtual IPs. */
export function listFamilies(vips: readonly Endpoint[]): Family[] {
  return families.filter((family) => vips.some((vip) => vip.family === family));
}

/** A process whose network namespace may not be asked for is nobody's fault. */
export function describeElsewhere({ name, pid }: HostProcess): NotChecked {
  return {
    unknown: `this user may not ask whether ${quoteText(name)} (pid ${pid}) is in this network namespace: run as root`,
  };
}
