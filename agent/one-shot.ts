import { describeUnread, type Kernel, type UnreadText, type WritePlace } from '../lib/kernel/port.ts';
import { createKernel } from '../lib/kernel/kernel.ts';
import type { Config } from '../config/options.ts';
import { type HostPorts, observeAndAssess, everything } from './read-host.ts';
import { systemClock } from '../lib/clock.ts';
import { toProbeSettings, probeOnce } from './health/monitor.ts';
import { askProxyMode, createProxyAbsence } from './observe/kube-proxy.ts';
import { askAgentHealth, askAgentApi } from './ask.ts';
import type { Apiserver } from './health/apiserver.ts';
import { findAuthority, createDrainStore } from '../lib/files.ts';
import { createCredentialsReader, createApiserver } from './health/connection.ts';
import { findAccess, findRoute } from '../lib/kubernetes/route.ts';
import { emptyState, type ReconcileState, type Assessment, type RouteChange } from './decide/decision.ts';
import { createEndpointStore, recallApiservers } from './state.ts';
import { type ClusterApi, noApi, ListedApi } from './api.ts';
import { VipnatError } from '../lib/errors.ts';
import type { Plan, TablePlan } from '../lib/dialect.ts';
import { type Endpoint, type Family, formatEndpoint, includesEndpoint } from '../lib/net.ts';
import type { OwnerInfo } from '../lib/http/singleton.ts';
import { type Ruleset, isOwnChain, parseRule } from '../lib/iptables/rules.ts';
import type { NftRuleset } from '../lib/nft/table.ts';
import { understandRules } from './observe/observe.ts';
import { plan as makePlan, planRemoval } from './decide/plan.ts';
import { listTranslatedFamilies } from '../lib/kernel/nftables.ts';
import { converge } from './sync.ts';
import { planRouteRemoval } from './local-clients.ts';
import { drainTable, createDrainRule } from '../lib/kernel/iptables.ts';
import { isInPath } from '../lib/kernel/tools.ts';
import { readNftVips } from '../lib/nft/vip-rules.ts';
import { readIptablesVips } from '../lib/iptables/vip-rules.ts';

/** The kernel of this host, for a command that reads or writes a few times and ends. */
export function createHostKernel(): Kernel {
  return createKernel({ onProblem: () => undefined });
}

/** Writes a line for a person, with its newline. */
export type Notify = (text: string) => void;

/**
 * The real ports of such a command. The running agent reports how apiservers are, and what the API says; without an agent
 * a probe of each and a list find it out. `notify` is called once if the API does not answer.
 */
export function createPorts(config: Config, notify: Notify): HostPorts {
  const clock = systemClock;
  const options = { apiserver: createHostApiserver(config), clock, settings: toProbeSettings(config) };
  return {
    kernel: createHostKernel(),
    askProxyMode,
    askProxyAbsence: createProxyAbsence(clock),
    api: createOneTimeApi(config, notify),
    health: { watch: async (watched) => (await askAgentHealth()) ?? (await probeOnce(options, watched)) },
  };
}

/** The apiservers as this host probes them. */
export function createHostApiserver({ caFile, kubeconfig }: Config, onNoDrainCheck?: () => void): Apiserver {
  return createApiserver({
    clock: systemClock,
    findAuthority: () => findAuthority(caFile),
    readCredentials: createCredentialsReader(findAccess(kubeconfig, process.env), systemClock),
    onNoDrainCheck,
  });
}

/**
 * What an agent would begin with that started now, and what the running agent compares with the API's answer. If a file
 * cannot be read, the agent reports that.
 */
export async function recallMemory({ stateDir }: Config): Promise<ReconcileState> {
  const store = createEndpointStore(stateDir);
  const known = await recallApiservers(store, () => undefined);
  return { ...emptyState, ...known, proxyOnly: (await askAgentApi())?.proxyOnly ?? {} };
}

/** One reading of all of this host by a process that has just begun, for `plan`, `check` and `doctor`. Writes nothing. */
export async function readHost(config: Config, notify: Notify): Promise<Assessment> {
  return await observeAndAssess(createPorts(config, notify), config, await recallMemory(config), everything);
}

function createOneTimeApi(config: Config, notify: Notify): ClusterApi {
  const route = findRoute(config);
  const onProblem = ({ code, message }: VipnatError) => {
    notify(`[${code}] ${message}\n`);
  };
  const listed = route === null ? noApi : new ListedApi({ route, clock: systemClock, onProblem });
  return {
    getView: async (known) => {
      const content = await askAgentApi();
      return content === null ? await listed.getView(known) : content.view;
    },
  };
}

/** What became of the rules and routes of `vipnat run`, or would. */
export interface OwnRemoval {
  readonly plan: Plan;
  /** The local routes. */
  readonly routes: readonly RouteChange[];
  /** Open connections, one at least, that the kernel forgets with the rules: their next packet is answered by a reset. */
  readonly resets: readonly { readonly vip: Endpoint; readonly connections: number }[];
  /** What could not be read or removed. */
  readonly problems: readonly UnreadText[];
}

/** Removes the rules and routes of some virtual IPs, or of all of every version, or only reports them. Each that fails keeps no other. */
export async function removeOwn(vips: readonly Endpoint[] | null, dryRun: boolean): Promise<OwnRemoval> {
  const kernel = createHostKernel();
  const found = await findOwn(kernel, vips);
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
export function leaveOwn({ pid }: OwnerInfo): OwnRemoval {
  const text = `an agent (pid ${pid}) is running here, so the rules of the API's virtual IP stay. Only if no client uses that address, stop the agent and clean up again`;
  return {
    plan: { tables: [], transactions: [] },
    routes: [],
    resets: [],
    problems: [{ code: 'AGENT_ALREADY_RUNNING', text }],
  };
}

type Own = Awaited<ReturnType<typeof findOwn>>;

/** What can be seen of vipnat's own, as a plan that removes it, and what cannot be read. */
async function findOwn(kernel: Kernel, vips: readonly Endpoint[] | null) {
  const { rulesets, nftRulesets, unread } = understandRules(await kernel.read(everything));
  const seen = [...rulesets, ...nftRulesets];
  return {
    seen,
    plan: vips === null ? makePlan({ dialect: 'nft', balances: [] }, seen) : planRemoval(seen, vips),
    unread,
  };
}

/** The open connections that end with the rules. What cannot be found out is left out: cleanup does not depend on it. */
async function countResets(kernel: Kernel, { seen }: Own, vips: readonly Endpoint[] | null) {
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
async function remove(kernel: Kernel, { plan: { transactions } }: Own, vips: readonly Endpoint[] | null) {
  const tables: TablePlan[] = [];
  const problems: UnreadText[] = [];
  for (const { family, dialect } of transactions) {
    const isMeant = (one: WritePlace) => one.family === family && one.dialect === dialect;
    const findPart = async () => {
      const { plan } = await findOwn(kernel, vips);
      return { tables: plan.tables.filter(isMeant), transactions: plan.transactions.filter(isMeant) };
    };
    const found = await attempt(async () => {
      tables.push(...(await converge(kernel, findPart)).tables);
    });
    problems.push(...found);
  }
  const isGone = (one: WritePlace) =>
    tables.some(({ family, dialect }) => family === one.family && dialect === one.dialect);
  return { plan: { tables, transactions: transactions.filter(isGone) }, problems };
}

/** Answers the routes that are gone, or would be, and why the others are not. */
async function removeRoutes(kernel: Kernel, vips: readonly Endpoint[] | null, dryRun: boolean) {
  const changes: RouteChange[] = [];
  const problems: UnreadText[] = [];
  const removeOne = async (change: RouteChange) => {
    if (!dryRun) await kernel.removeSourceRoute(change.route);
    changes.push(change);
  };
  const unread = await attempt(async () => {
    for (const change of planRouteRemoval(await kernel.readLocalRoutes(), vips))
      problems.push(...(await attempt(() => removeOne(change))));
  });
  return { changes, problems: [...problems, ...unread] };
}

/** Answers what keeps it from being done; only what is no error of vipnat's is thrown. */
async function attempt(act: () => Promise<void>): Promise<readonly UnreadText[]> {
  try {
    await act();
    return [];
  } catch (error) {
    if (!(error instanceof VipnatError)) throw error;
    return [{ code: error.code, text: error.message }];
  }
}

/** What became of what `vipnat drain` has left on this host. */
export interface DrainRemoval {
  /** The tables that are gone, or would be, with their families; one at most. */
  readonly tables: readonly string[];
  /** The files that are gone, or would be; one at most. */
  readonly files: readonly string[];
  /** Why the rest is still there. */
  readonly problems: readonly UnreadText[];
}

/** Ends the drain of this host, or only reports it. */
export async function removeDrain(stateDir: string, dryRun: boolean): Promise<DrainRemoval> {
  const store = createDrainStore(stateDir);
  const gone = { tables: [] as string[], files: [] as string[] };
  // The file first: no drain needs a table without it.
  const ofFile = await attempt(async () => {
    if ((await store.load()) === null) return;
    if (!dryRun) await store.save(null);
    gone.files.push(store.location);
  });
  const ofTable = await attempt(async () => {
    // Without nft nobody has written it.
    if (!isInPath('nft')) return;
    const rule = createDrainRule();
    if ((await rule.read())?.length === 0) return;
    if (!dryRun) await rule.write([]);
    gone.tables.push(drainTable);
  });
  return { ...gone, problems: [...ofFile, ...ofTable] };
}

/** Targets of iptables for which the kernel tracks and translates connections; the names are iptables-extensions(8)'s. */
const translations = new Set<string | null>(['DNAT', 'SNAT', 'MASQUERADE', 'REDIRECT', 'NETMAP']);

/**
 * The virtual IPs whose open connections the kernel forgets when their rules go, because nothing that stays translates
 * connections of their family. `vips` are those whose rules go; null for all. `translated` has the families that other tables
 * of nftables translate. Rules that could not be read count as such rules: nothing is known of them. Pure.
 */
export function findUntracked(
  seen: readonly (Ruleset | NftRuleset)[],
  vips: readonly Endpoint[] | null,
  translated: ReadonlySet<Family>,
): Endpoint[] {
  const written = seen.flatMap((ruleset) =>
    ruleset.dialect === 'nftables' ? readNftVips(ruleset) : readIptablesVips(ruleset),
  );
  const all = [...new Map(written.map((vip) => [formatEndpoint(vip), vip])).values()];
  const stays = (vip: Endpoint) => vips !== null && !includesEndpoint(vips, vip);
  const others = [...all.filter(stays), ...seen.filter(translatesForOthers)];
  const tracked = new Set([...translated, ...others.map(({ family }) => family)]);
  return all.filter((vip) => !stays(vip) && !tracked.has(vip.family));
}

function translatesForOthers(ruleset: Ruleset | NftRuleset): boolean {
  if (ruleset.dialect === 'nftables') return false;
  if (ruleset.unread.includes('nat')) return true;
  const chains = [...(ruleset.tables.get('nat') ?? [])];
  return chains.some(
    ([chain, rules]) => !isOwnChain(chain) && rules.some((text) => translations.has(parseRule(text).target)),
  );
}
