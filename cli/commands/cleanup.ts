import { VipnatError } from '../../lib/text/errors.ts';
import { exitStatuses } from '../../lib/text/exit-status.ts';
import { type Family } from '../../lib/address/address.ts';
import { type Kernel, type Dialect, type UnreadRules } from '../../lib/kernel/port.ts';
import { listTranslatedFamilies } from '../../lib/kernel/real/nft-chains.ts';
import { type Ruleset } from '../../lib/netfilter/iptables/ruleset.ts';
import { type NftRuleset } from '../../lib/netfilter/nftables/ruleset.ts';
import { toPrintableLine } from '../../lib/text/printable.ts';
import { converge } from '../../agent/reconcile/converge.ts';
import { type AgentInfo, findAgent } from '../../agent/http/presence.ts';
import { everything } from '../../agent/reconcile/look.ts';
import { type Endpoint } from '../../lib/address/endpoint.ts';
import { plan as makePlan, planRemoval, type Plan, type TablePlan } from '../../agent/decide/plan.ts';
import { planRouteRemoval, type RouteChange } from '../../agent/decide/source-routes.ts';
import { findUntracked } from '../../agent/decide/untracked.ts';
import { understandRules } from '../../agent/observe/understand-rules.ts';
import { describeUnread, type UnreadText } from '../../agent/observe/unread.ts';
import { type CommandContext, defineCommand } from '../command/command.ts';
import { json } from '../command/shared-flags.ts';
import { type OptionsOf, toggle } from '../flags/flag.ts';
import { formatErrorLine } from '../format/text/error-text.ts';
import {
  formatRemoval,
  formatRemovalCommands,
  formatRemovalJson,
  type Removal,
  type Reset,
} from '../format/screens/removal.ts';
import { removeBalancerTables } from '../wiring/balancer-tables.ts';
import { removeDrain } from '../wiring/remove-drain.ts';
import { createHostKernel } from '../wiring/one-shot-host.ts';
import { nameNode } from '../wiring/node-name.ts';

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
  heeds: ['vip', 'stateDir', 'logLevel'],
  run: removeAll,
});

/**
 * Removes every rule and chain of ours, of every version, dialect and family, the balancer's tables and this host's drain; with
 * --vip only those of that virtual IP. With --dry-run it prints what it would remove, and writes nothing. Where rules cannot be read or
 * written, or a program runs that would write them again, the others are removed all the same, and it ends with `failed`.
 */
async function removeAll({
  config,
  flags: given,
  options,
  stdout,
  stderr,
}: CommandContext<OptionsOf<typeof flags>>): Promise<number> {
  const { dryRun, json: isJson } = options;
  // A variable or a file says what the agent balances, and does not count.
  const isNarrowed = given['vip'] !== undefined;
  const vips = isNarrowed ? config.vips : null;
  const agent = await findAgent();
  const own = agent === null || dryRun ? await removeOwn(vips, dryRun) : leaveOwn(agent);
  const balancer = await removeBalancerTables({ dryRun, isNarrowed });
  const drain = await removeDrain({
    stateDir: config.stateDir,
    dryRun,
    isNarrowed,
    hasAgent: agent !== null,
  });
  const seen = own.problems;
  const more = [...balancer.problems, ...drain.problems];
  const removal = {
    ...own,
    balancerTables: balancer.tables,
    balancerChains: balancer.chains,
    drainTables: drain.tables,
    drainFiles: drain.files,
    vips,
    dryRun,
    // One obstacle, such as a missing right, is told once.
    problems: [...seen, ...more.filter(({ code }) => !seen.some((one) => one.code === code))],
  };
  if (isJson) stdout(formatRemovalJson(removal, nameNode(config)));
  else if (dryRun) stdout(formatRemovalCommands(removal, nameNode(config)));
  stderr(`${isJson ? '' : formatRemoval(removal)}${formatProblems(removal.problems)}`);
  if (agent !== null && dryRun) {
    stderr(`an agent (pid ${agent.pid}) is running here: stop it before cleanup\n`);
  }
  return removal.problems.length === 0 ? exitStatuses.done : exitStatuses.failed;
}

function formatProblems(problems: readonly UnreadText[]): string {
  return problems.map(({ code, text }) => `${formatErrorLine(code, toPrintableLine(text))}\n`).join('');
}

/** What became of the rules and routes of `vipnat run`. */
type OwnRemoval = Pick<Removal, 'plan' | 'routes' | 'resets' | 'problems'>;

/** Removes them, or only looks for them. */
async function removeOwn(vips: readonly Endpoint[] | null, dryRun: boolean): Promise<OwnRemoval> {
  const kernel = createHostKernel();
  const found = await lookForOwn(kernel, vips);
  const resets = await countResets(kernel, found, vips);
  const { plan, problems } = dryRun ? { plan: found.plan, problems: [] } : await remove(kernel, found, vips);
  const routes = await removeRoutes(kernel, vips, dryRun);
  return {
    plan,
    routes: routes.changes,
    resets,
    problems: [...describeUnread(found.unread), ...problems, ...routes.problems],
  };
}

/** The agent would write them again. */
function leaveOwn({ pid }: AgentInfo): OwnRemoval {
  const text = `an agent (pid ${pid}) is running here, so the rules of the API's virtual IP stay. Only if no client uses that address, stop the agent and clean up again`;
  return {
    plan: { tables: [], transactions: [] },
    routes: [],
    resets: [],
    problems: [{ code: 'AGENT_ALREADY_RUNNING', text }],
  };
}

/** What of ours can be seen, as a plan that removes it, and what cannot be read. */
interface Own {
  readonly plan: Plan;
  readonly seen: readonly (Ruleset | NftRuleset)[];
  readonly unread: readonly UnreadRules[];
}

async function lookForOwn(kernel: Kernel, vips: readonly Endpoint[] | null): Promise<Own> {
  const { rulesets, nftRulesets, unread } = understandRules(await kernel.read(everything));
  const seen = [...rulesets, ...nftRulesets];
  return {
    seen,
    plan: vips === null ? makePlan({ dialect: 'nft', balances: [] }, seen) : planRemoval(seen, vips),
    unread,
  };
}

/** The open connections that end with the rules. What cannot be found out is left out: cleanup does not depend on it. */
async function countResets(
  kernel: Kernel,
  { seen }: Own,
  vips: readonly Endpoint[] | null,
): Promise<readonly Reset[]> {
  const translated = await listTranslatedFamilies().catch(() => null);
  if (translated === null) return [];
  const counts = await Promise.all(
    findUntracked(seen, vips, translated).map(async (vip) => {
      const flows = await kernel.countFlows(vip).catch(() => new Map<string, number>());
      return { vip, connections: [...flows.values()].reduce((sum, each) => sum + each, 0) };
    }),
  );
  return counts.filter(({ connections }) => connections > 0);
}

/** Each dialect and family by itself: one that fails keeps no other. Answers what is gone, and why the rest is not. */
async function remove(
  kernel: Kernel,
  { plan: { transactions } }: Own,
  vips: readonly Endpoint[] | null,
): Promise<{ plan: Plan; problems: readonly UnreadText[] }> {
  const tables: TablePlan[] = [];
  const problems: UnreadText[] = [];
  for (const { family, dialect } of transactions) {
    const lookForPart = async () =>
      selectPart(
        (await lookForOwn(kernel, vips)).plan,
        (one) => one.family === family && one.dialect === dialect,
      );
    try {
      tables.push(...(await converge(kernel, lookForPart)).tables);
    } catch (error) {
      if (!(error instanceof VipnatError)) throw error;
      problems.push({ code: error.code, text: error.message });
    }
  }
  const isGone = (one: Place) =>
    tables.some(({ family, dialect }) => family === one.family && dialect === one.dialect);
  return { plan: { tables, transactions: transactions.filter(isGone) }, problems };
}

/** Answers the routes that are gone, or would be, and why the others are not. */
async function removeRoutes(
  kernel: Kernel,
  vips: readonly Endpoint[] | null,
  dryRun: boolean,
): Promise<{ changes: readonly RouteChange[]; problems: readonly UnreadText[] }> {
  const changes: RouteChange[] = [];
  const problems: UnreadText[] = [];
  const attempt = async (act: () => Promise<void>) => {
    try {
      await act();
    } catch (error) {
      if (!(error instanceof VipnatError)) throw error;
      problems.push({ code: error.code, text: error.message });
    }
  };
  await attempt(async () => {
    for (const change of planRouteRemoval(await kernel.readLocalRoutes(), vips)) {
      await attempt(async () => {
        if (!dryRun) await kernel.removeSourceRoute(change.route);
        changes.push(change);
      });
    }
  });
  return { changes, problems };
}

interface Place {
  readonly family: Family;
  readonly dialect: Dialect;
}

function selectPart({ tables, transactions }: Plan, isMeant: (place: Place) => boolean): Plan {
  return { tables: tables.filter(isMeant), transactions: transactions.filter(isMeant) };
}
