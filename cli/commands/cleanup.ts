import type { RulesRemoval } from '../../agent/main.ts';
import type { cleanUpServices } from '../../balancer/main.ts';
import { type Endpoint, formatEndpoint } from '../../lib/net.ts';
import { balancerChain, isOwnChain } from '../../lib/iptables/rules.ts';
import { countChanges, formatTables, formatRoutes, describeTransactions } from '../screens/plan.ts';
import { quoteWords, formatDocument, exitStatuses } from '../../lib/text.ts';
import { type TablePlan, describeTable } from '../../lib/dialect.ts';
import { toggle, json, defineCommand, type CommandContext, type OptionsOf } from '../command.ts';
import { nameNode } from '../../config/load.ts';
import { formatProblems, joinLines, count } from '../output.ts';

/** What `vipnat cleanup` removed, or would remove. */
interface Removal extends Omit<RulesRemoval, 'agent'> {
  readonly balancer: Awaited<ReturnType<typeof cleanUpServices>>;
  /** The virtual IPs that it is about; null for everything of vipnat. */
  readonly vips: readonly Endpoint[] | null;
  readonly dryRun: boolean;
}

/** A line for each table, and one where there is none: that needs everything to have been read. Each ends with a newline. */
export function formatRemoval(removal: Removal): string {
  const { plan, routes, balancer, drain, resets, vips, dryRun, problems } = removal;
  const subject = vips === null ? 'vipnat' : vips.map(formatEndpoint).join(', ');
  const parts = [
    ...plan.tables.map(describePart),
    ...listWholeTables(removal).map((table) => `the table (${table}, nft)`),
    ...balancer.chains.map((tool) => `the chain ${balancerChain} (filter, ${tool})`),
    ...routes.map(({ route }) => `the local route of ${route.address} with the source ${route.source}`),
    ...drain.files.map((file) => `the file ${file}`),
  ];
  const isNothing = parts.length === 0;
  if (isNothing && problems.length > 0) return '';
  if (isNothing) return `nothing of ${subject} ${dryRun ? 'is' : 'was'} here\n`;
  const verb = dryRun ? 'would remove' : 'removed';
  return joinLines([
    ...parts.map((part) => `${verb} ${part}`),
    ...resets.map((reset) => describeReset(reset, dryRun)),
  ]);
}

/** The same as commands that a person can read, and run one by one; empty when there is nothing to remove. */
export function formatRemovalCommands(removal: Removal, node: string): string {
  const { routes, balancer, drain, vips } = removal;
  const { tables } = removal.plan;
  const wholeTables = listWholeTables(removal);
  const parts = [tables, routes, wholeTables, balancer.chains, drain.files];
  if (parts.every(({ length }) => length === 0)) return '';
  const subject =
    vips === null ? 'everything of vipnat' : `the rules of ${vips.map(formatEndpoint).join(', ')}`;
  const counts = [
    ...(tables.length === 0 ? [] : [countChanges(tables)]),
    ...Object.entries({ table: wholeTables, chain: balancer.chains, route: routes, file: drain.files })
      .filter(([, { length }]) => length > 0)
      .map(([noun, { length }]) => `${count(length, noun)} to delete`),
  ];
  const lines = [
    `# ${node} · removes ${subject}`,
    ...formatTables(tables),
    // Before the table: an agent would write it again.
    ...drain.files.map((file) => `rm -f ${quoteWords([file])}`),
    ...wholeTables.map((table) => `nft delete table ${table}`),
    ...balancer.chains.flatMap(removeChain),
    ...formatRoutes(routes),
    '',
    `# ${counts.join(', ')}. Nothing was written.`,
  ];
  return `${lines.join('\n')}\n`;
}

/** The same for programs, version 1: fields are added, never renamed. Ends with a newline. */
export function formatRemovalJson(removal: Removal, node: string): string {
  const { plan, routes, balancer, drain, resets, vips, dryRun, problems } = removal;
  return formatDocument({
    version: 1,
    node,
    dryRun,
    vips: vips === null ? null : vips.map(formatEndpoint),
    removed: plan.tables.map((part) => ({
      family: part.family,
      backend: part.dialect,
      table: part.table,
      ...countParts(part),
    })),
    transactions: describeTransactions(plan),
    routes: routes.map(({ route, command }) => ({ ...route, command })),
    resets: resets.map(({ vip, connections }) => ({ vip: formatEndpoint(vip), connections })),
    ...{ balancerTables: balancer.tables, balancerChains: balancer.chains },
    ...{ drainTables: drain.tables, drainFiles: drain.files, problems },
  });
}

/** Those that go with all that they hold. */
function listWholeTables({ balancer, drain }: Removal): readonly string[] {
  return [...balancer.tables, ...drain.tables];
}

/** A chain can be deleted once nothing leads to it, and it leads to nothing. */
function removeChain(tool: string): string[] {
  return [`-D FORWARD -j ${balancerChain}`, `-F ${balancerChain}`, `-X ${balancerChain}`].map(
    (words) => `${tool} -t filter ${words}`,
  );
}

function describeReset({ vip, connections }: RulesRemoval['resets'][number], dryRun: boolean): string {
  const open = `${count(connections, 'open connection')} to ${formatEndpoint(vip)}`;
  const effect = `the kernel ${dryRun ? 'would reset' : 'resets'} ${open}, and clients connect again`;
  return `warning: ${effect}. No other rules on this host translate connections`;
}

function describePart(part: TablePlan): string {
  if (part.changes.some(({ kind }) => kind === 'delete-table')) return `the table (${describeTable(part)})`;
  const { chains, hooks, rules } = countParts(part);
  const counts = [
    count(chains, 'chain'),
    ...(hooks > 0 || rules === 0 ? [count(hooks, 'hook')] : []),
    ...(rules > 0 ? [count(rules, 'rule')] : []),
  ];
  return `(${describeTable(part)}): ${counts.join(', ')}`;
}

/** Chains that go, hooks that led to them, and the shared chains that lose a rule, each counted once. */
function countParts({ changes, dialect }: TablePlan): { chains: number; hooks: number; rules: number } {
  const ofKind = (wanted: string) => changes.filter(({ kind }) => kind === wanted).length;
  const chains = ofKind('delete-chain');
  const emptied = dialect === 'nftables' ? ofKind('flush-chain') : ofKind('reset-chain');
  const deleted = changes.filter((change) => change.kind === 'delete');
  const hooks = deleted.filter(({ chain }) => !isOwnChain(chain)).length;
  return { chains, hooks, rules: Math.max(0, emptied - chains) + deleted.length - hooks };
}

const flags = { dryRun: toggle('print what cleanup would remove, and change nothing'), json };

/** `vipnat cleanup`. */
export const cleanup = defineCommand({
  help: `
Examples:
  vipnat cleanup
  vipnat cleanup --dry-run           what cleanup would remove
  vipnat cleanup --vip 10.0.0.50     only the rules of this virtual IP

Removes the rules of vipnat from every backend and both families, also rules of earlier
versions, and ends a drain. With --vip, other virtual IPs keep their rules. The hooks go
with the last virtual IP. Only the flag --vip counts here, not VIPNAT_VIP or a file.
Stop a running agent or balancer first.
Exit status: 0 no rule of vipnat is left, 1 failed, 78 bad configuration.`,
  flags,
  configOptions: ['vip', 'stateDir', 'logLevel'],
  run: removeAll,
});

/**
 * Where rules cannot be read or written, or a program runs that would write them again, the others are removed all the same, and it ends
 * with `failed`.
 */
async function removeAll(context: CommandContext<OptionsOf<typeof flags>>): Promise<number> {
  const { config, stdout, stderr } = context;
  const { dryRun, json: isJson } = context.options;
  // A variable or a file says what the agent balances, and does not count.
  const isNarrowed = context.flags['vip'] !== undefined;
  const vips = isNarrowed ? config.vips : null;
  const { cleanUpRules } = await import('../../agent/main.ts');
  const { cleanUpServices } = await import('../../balancer/main.ts');
  const { agent, ...own } = await cleanUpRules({ vips, dryRun, stateDir: config.stateDir });
  const balancer = isNarrowed ? nothing : await cleanUpServices({ dryRun });
  const more = [...balancer.problems, ...own.drain.problems];
  const removal = {
    ...{ ...own, balancer, vips, dryRun },
    // One obstacle, such as a missing right, is reported once.
    problems: [...own.problems, ...more.filter(({ code }) => !own.problems.some((one) => one.code === code))],
  };
  if (isJson) stdout(formatRemovalJson(removal, nameNode(config)));
  else if (dryRun) stdout(formatRemovalCommands(removal, nameNode(config)));
  stderr(`${isJson ? '' : formatRemoval(removal)}${formatProblems(removal.problems)}`);
  if (agent !== null && dryRun)
    stderr(`an agent (pid ${agent.pid}) is running here: stop it before cleanup\n`);
  return removal.problems.length === 0 ? exitStatuses.done : exitStatuses.failed;
}

/** A cleanup of some virtual IPs of the API is not about the balancer. */
const nothing = { tables: [], chains: [], problems: [] };
