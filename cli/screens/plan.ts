import type { PlannedRules, VipDecision, ClosedSwitch, LocalRouteChange } from '../../agent/main.ts';
import { type Screen, plainScreen, layOutText } from '../output.ts';
import { formatEndpoint, type Family } from '../../lib/net.ts';
import { describeKubeProxy } from '../findings.ts';
import {
  type TablePlan,
  type NftPlan,
  type IptablesPlan,
  type Plan,
  type NftChange,
  vipChainName,
  type Change,
} from '../../lib/dialect.ts';
import { nameOwnTable, toolName } from '../../lib/kernel/port.ts';
import { toCommand } from '../../lib/iptables/diff.ts';
import { modeToEntry } from '../../agent/decide/mode.ts';
import { VipnatError } from '../../lib/errors.ts';
import { type Config, isBalanced } from '../../config/options.ts';
import { renderNftTable, printNftTable } from '../../lib/nft/vip-rules.ts';

/** What chains are for: those of the kernel as far as vipnat hooks into them, and the base chains of vipnat's own table. */
const chainToComment = new Map([
  ['PREROUTING', "Connections from other hosts and from pods, before kube-proxy's own rules:"],
  ['OUTPUT', 'Connections from this host itself:'],
  ['POSTROUTING', 'After routing, before packets leave this node:'],
  ['FORWARD', 'Before any rule that would drop them, on hosts with FORWARD policy DROP:'],
  ['INPUT', 'Before any rule that would let those replies pass:'],
  ['prerouting', 'Match connections from other hosts and from pods, by VIP address and port:'],
  ['output', 'The same for connections from this host:'],
  ['postrouting', "Replies must come back through this node, so its address replaces the client's:"],
  ['forward', 'Accept balanced connections in both directions:'],
  ['input', 'Drop replies that the connection table calls invalid: this node would reset their connections:'],
]);

/**
 * Lines that a person can read, and run one by one: the plan as iptables commands, each group with the reason
 * for it, and every line that is no command a comment. They are not atomic; `--format restore` is. Pasted again, they add nothing twice.
 */
export function formatCommands(state: PlannedRules, node: string, screen: Screen = plainScreen): string {
  const { plan, decisions, missingSwitches, sourceRoutes, refused, observation } = state;
  const title = decisions.map(({ vip, mode }) => `${formatEndpoint(vip)}: ${mode}`).join(' · ');
  const lines = [
    `# ${node} · ${describeKubeProxy(observation)} · ${title}`,
    ...new Set(decisions.map(({ reason }) => `# Why: ${reason}.`)),
    ...new Set(refused.map((sentence) => `# Left out: ${sentence}.`)),
    ...formatSwitches(missingSwitches),
    ...formatTables(plan.tables, decisions),
    ...formatRoutes(sourceRoutes),
    '',
    `# ${countChanges(plan.tables)}. Nothing was written.`,
  ];
  return `${lines.flatMap((line) => (line.startsWith('#') ? formatComment(line, screen) : [line])).join('\n')}\n`;
}

/** Reasons quote what others say: a second line of one would be a command. Commented commands are not broken either. */
function formatComment(comment: string, screen: Screen): string[] {
  if (comment.startsWith('# sysctl ')) return [comment];
  const [first = '', ...more] = layOutText('  ', comment.slice(2), screen);
  return [`# ${first.slice(2)}`, ...more.map((line) => `# ${line}`)];
}

/** The commands of some tables, group by group: what is not about one of the decisions is left over from before. */
export function formatTables(tables: readonly TablePlan[], decisions: readonly VipDecision[] = []): string[] {
  return byInterest(tables).flatMap((table) =>
    table.dialect === 'nftables' ? formatNftTable(table, decisions) : formatIptables(table, decisions),
  );
}

function formatSwitches(missing: readonly ClosedSwitch[]): string[] {
  const own = missing.filter(({ isOwn }) => isOwn).map(({ command }) => command);
  const left = missing.filter(({ isOwn }) => !isOwn).map(({ command }) => `# ${command}`);
  return [
    ...(own.length === 0 ? [] : ['', '# IP forwarding is off:', ...own]),
    ...(left.length === 0
      ? []
      : ['', '# IP forwarding is off, and vipnat leaves it off (--sysctls check):', ...left]),
  ];
}

/** Those of a running agent: it removes each when its address leaves. */
export function formatRoutes(changes: readonly LocalRouteChange[]): string[] {
  return changes.flatMap(({ reason, command }) => ['', `# The local route (${reason}):`, command]);
}

/** The nat table first: that is where the VIP's packets go. */
function byInterest(tables: readonly TablePlan[]): TablePlan[] {
  return tables.toSorted((one, other) => Number(one.table === 'filter') - Number(other.table === 'filter'));
}

/** In the script's order but for the rules, which read best chain by chain. */
function formatNftTable({ family, changes }: NftPlan, decisions: readonly VipDecision[]): string[] {
  const isDeletion = ({ kind }: NftChange) => kind === 'delete-chain' || kind === 'delete-set';
  const isRule = ({ kind }: NftChange) => kind === 'add-rule' || kind === 'flush-chain';
  const rules = Map.groupBy(changes.filter(isRule), ({ name }) => name);
  const toCommands = (group: readonly NftChange[]) => group.map(({ command }) => command);
  const groups: (readonly [string, readonly string[]])[] = [
    ['A separate table:', toCommands(changes.filter((change) => !isDeletion(change) && !isRule(change)))],
    ...[...rules].map(([name, own]): [string, string[]] => [
      describeNftChain(name, decisions),
      // A script need not empty a new chain. A person may paste its rules again.
      [...new Set([`flush chain ${nameOwnTable(family)} ${name}`, ...toCommands(own)])],
    ]),
    ['Left over, and no longer used:', toCommands(changes.filter(isDeletion))],
  ];
  return groups
    .filter(([, group]) => group.length > 0)
    .flatMap(([title, group]) => ['', `# ${title}`, ...group.map((command) => `nft '${command}'`)]);
}

function describeNftChain(name: string, decisions: readonly VipDecision[]): string {
  const decision = decisions.find(({ vip }) => vipChainName(vip) === name);
  return decision === undefined
    ? (chainToComment.get(name) ?? 'Left over from before:')
    : describeVipChain(decision);
}

function formatIptables(plan: IptablesPlan, decisions: readonly VipDecision[]): string[] {
  const { family, dialect, table, changes } = plan;
  const tool = toolName(family, dialect);
  // A chain is deleted after what referred to it; all else reads best chain by chain.
  const deletions = changes.filter(({ kind }) => kind === 'delete-chain');
  const others = changes.filter(({ kind }) => kind !== 'delete-chain');
  const groups = [...Map.groupBy(others, ({ chain }) => chain).values()];
  if (deletions.length > 0) groups.push(deletions);
  return groups.flatMap((group) => [
    '',
    `# ${describeGroup(group, decisions)}`,
    ...group.map((change) => toCommand(tool, table, change)),
  ]);
}

function describeGroup(group: readonly Change[], decisions: readonly VipDecision[]): string {
  const [first] = group;
  if (first === undefined) return '';
  if (first.kind === 'delete-chain') return 'Left over, and no longer used:';
  const hook = chainToComment.get(first.chain);
  if (hook !== undefined) return hook;
  const decision = decisions.find(({ vip }) => vipChainName(vip) === first.chain);
  if (decision !== undefined) return describeVipChain(decision);
  if (group.every(({ kind }) => kind === 'reset-chain' || kind === 'delete')) return 'Left over from before:';
  // `VIPNAT-INPUT` is for what `input` is for in vipnat's own table. `VIPNAT` is what both hooks of the nat table lead to.
  const base = first.chain.slice('VIPNAT-'.length).toLowerCase();
  return chainToComment.get(base) ?? 'Match new connections by VIP address and port:';
}

function describeVipChain(decision: VipDecision): string {
  return `${formatEndpoint(decision.vip)} ${modeToEntry[decision.mode].describe(decision)}:`;
}

/** `9 changes to nat, 3 to filter`. */
export function countChanges(tables: readonly TablePlan[]): string {
  const counts = byInterest(tables).map(
    ({ family, table, changes }) => `${changes.length} to ${table}${family === 'ipv6' ? ' (IPv6)' : ''}`,
  );
  const [first = 'no changes', ...more] = counts;
  return [first.replace(' to ', first.startsWith('1 ') ? ' change to ' : ' changes to '), ...more].join(', ');
}

/**
 * The plan as what one tool reads: a comment names the tool and its flags. Where nft has a table of each family, one run
 * of it reads both.
 * @throws VipnatError CONFIG_INVALID when the plan is for several tools: no stream can be for all of them.
 */
export function formatRestore({ plan, decisions }: PlannedRules): string {
  refuseSeveralTools(plan);
  const joined = decisions
    .map((decision) => modeToEntry[decision.mode].toRoute(decision))
    .find((route) => route.kind === 'jump');
  const note =
    joined === undefined
      ? ''
      : `# jumps to ${joined.chain}, a chain of kube-proxy. If it is missing, iptables-legacy refuses the jump, also with --test\n`;
  return plan.transactions
    .map(({ family, dialect, input }) =>
      dialect === 'nftables'
        ? `# nft -f -\n${input}`
        : `# ${toolName(family, dialect, 'restore')} --noflush\n${note}${input}`,
    )
    .join('');
}

/** What each tool reads, for programs. */
export function describeTransactions(plan: Plan): { tool: string; family: Family; input: string }[] {
  return plan.transactions.map(({ family, dialect, input }) => ({
    tool: toolName(family, dialect, 'restore'),
    family,
    input,
  }));
}

function refuseSeveralTools(plan: Plan): void {
  const { transactions } = plan;
  const tools = new Set(describeTransactions(plan).map(({ tool }) => tool));
  if (tools.size <= 1) return;
  const isOfTwoBackends = new Set(transactions.map(({ dialect }) => dialect)).size > 1;
  const next = isOfTwoBackends
    ? 'Use --format commands, or give each input of --json to its tool'
    : 'Add --family ipv4, then --family ipv6';
  const what = `--format restore prints the input of one tool, but this plan is for ${[...tools].join(' and ')}`;
  throw new VipnatError('CONFIG_INVALID', `${what}. ${next}`);
}

/**
 * The same balancing as tables of its own for `nft -f -`, one per family. A VIP that goes through kube-proxy goes
 * straight to the same apiservers here: a chain of another table cannot be joined.
 * @throws VipnatError CONFIG_INVALID when nothing says which apiservers these are.
 */
export function formatNft(decisions: readonly VipDecision[], { masquerade }: Config): string {
  const unknown = decisions.find((decision) => isBalanced(decision) && decision.backends.length === 0);
  if (unknown !== undefined) {
    const what = `an nftables table cannot jump to kube-proxy's chains, so ${formatEndpoint(unknown.vip)} needs the apiservers`;
    throw new VipnatError('CONFIG_INVALID', `${what}: add --endpoints 10.0.0.11:6443,10.0.0.12:6443`);
  }
  const families = [...new Set(decisions.map(({ vip }) => vip.family))].sort();
  return families
    .map((family) => {
      const balances = decisions
        .filter(({ vip }) => vip.family === family)
        .map(({ vip, backends, affinitySeconds }) => ({
          ...{ vip, backends, masquerade, affinitySeconds },
          apiservers: backends,
        }));
      const table = renderNftTable(family, balances);
      return table === null ? '' : printNftTable(family, table);
    })
    .join('');
}

/** The part of a planned state that is about one family, for `plan --family`; all of it where none is named. */
export function selectFamily(state: PlannedRules, family: Family | null): PlannedRules {
  if (family === null) return state;
  const isOfFamily = (part: { readonly family: Family }) => part.family === family;
  return {
    ...state,
    decisions: state.decisions.filter(({ vip }) => isOfFamily(vip)),
    missingSwitches: state.missingSwitches.filter(isOfFamily),
    plan: {
      tables: state.plan.tables.filter(isOfFamily),
      transactions: state.plan.transactions.filter(isOfFamily),
    },
  };
}
