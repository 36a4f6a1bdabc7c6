import { type Family } from '../../lib/address/address.ts';
import { type Endpoint } from '../../lib/address/endpoint.ts';
import { type HolderInfo } from '../../lib/http/singleton.ts';
import { type Dialect, type Kernel, type UnreadRules } from '../../lib/kernel/port.ts';
import { createKernel } from '../../lib/kernel/real/kernel.ts';
import { listTranslatedFamilies } from '../../lib/kernel/real/nft-chains.ts';
import { describeUnread, type UnreadText } from '../../lib/kernel/real/unread.ts';
import { type Ruleset } from '../../lib/netfilter/iptables/ruleset.ts';
import { type NftRuleset } from '../../lib/netfilter/nftables/ruleset.ts';
import { type Plan, type TablePlan } from '../../lib/netfilter/plan/table-plan.ts';
import { VipnatError } from '../../lib/text/errors.ts';
import { plan as makePlan, planRemoval } from '../decide/plan.ts';
import { planRouteRemoval, type RouteChange } from '../decide/source-routes.ts';
import { findUntracked } from '../decide/untracked.ts';
import { understandRules } from '../observe/understand-rules.ts';
import { converge } from './converge.ts';
import { everything } from './look.ts';

/** What became of the rules and routes of `vipnat run`, or would. */
export interface OwnRemoval {
  readonly plan: Plan;
  /** The local routes. */
  readonly routes: readonly RouteChange[];
  /** Open connections that end with the rules. */
  readonly resets: readonly Reset[];
  /** What could not be read or removed. */
  readonly problems: readonly UnreadText[];
}

/** Open connections to a virtual IP that the kernel forgets, so that their next packet is answered by a reset. */
export interface Reset {
  readonly vip: Endpoint;
  /** At least one. */
  readonly connections: number;
}

/** Removes the rules and routes of some virtual IPs, or of all of every version, or only looks for them. Each that fails keeps no other. */
export async function removeOwn(vips: readonly Endpoint[] | null, dryRun: boolean): Promise<OwnRemoval> {
  const kernel = createKernel({ onProblem: () => undefined });
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

/** Leaves them to an agent that runs: it would write them again. */
export function leaveOwn({ pid }: HolderInfo): OwnRemoval {
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
