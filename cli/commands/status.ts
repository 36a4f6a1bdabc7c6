import {
  type HostStatus,
  type VipStatus,
  type BackendStatus,
  isKeepalivedSeen,
  toVrrpState,
  isInTrouble,
  formatStatusJson,
} from '../../agent/report/status.ts';
import {
  type Screen,
  plainScreen,
  type Part,
  layOutParts,
  layOutText,
  type Tone,
  formatTable,
  printScreens,
  showFailure,
  count,
  joinLines,
} from '../output.ts';
import { isBalanced } from '../../config/options.ts';
import { formatEndpoint } from '../../lib/net.ts';
import { describeDrift } from '../../lib/dialect.ts';
import {
  describeBare,
  describeKubeProxy,
  describeOutage,
  describeSources,
  findLocalClientWarnings,
} from '../findings.ts';
import { findDropRules, describeDropRule } from '../foreign-rules.ts';
import { describeUnread } from '../../lib/kernel/port.ts';
import { toPrintableLine, formatAge, formatDocument } from '../../lib/text.ts';
import { type HostBalancer, isUsed, findTrouble, nameTable, nameTables } from '../../lib/api/balancer.ts';
import {
  json,
  watch,
  color,
  context,
  toggle,
  type CommandContext,
  type OptionsOf,
  defineCommand,
  hostOptions,
} from '../command.ts';
import { nameNode } from '../../config/load.ts';
import { systemClock } from '../../lib/clock.ts';

/** One screen for a tired person: the answer first, the reason under it, then each apiserver, then who keeps it so. */
export function formatStatus(status: HostStatus, screen: Screen = plainScreen): string {
  const blocks = status.vips.map((vip) => formatVip(vip, status, screen));
  return `${[...blocks.flatMap((block) => [...block, '']), ...formatFoot(status, screen)].join('\n')}\n`;
}

function formatVip({ decision, isHeld, backends }: VipStatus, status: HostStatus, screen: Screen): string[] {
  const { vip, mode, reason } = decision;
  const leader = isHeld ? 'held by this node' : 'not held by this node';
  const outage = describeOutage(decision, status.assessment.health);
  const sync = describeSync(status);
  const parts: Part[] = isBalanced(decision)
    ? [leader, mode, ...(outage.length > 0 && sync.tone === 'good' ? [] : [sync])]
    : [{ text: 'NOT BALANCED', tone: 'bad' }, mode, leader];
  const lead = outage.map((text, at): Part => ({ text, tone: at === 0 ? 'bad' : undefined }));
  return [
    ...layOutParts(`${formatEndpoint(vip)}   `, [...lead, ...parts], screen),
    ...layOutText('  because ', reason, screen),
    ...(backends.length === 0 ? [] : ['', ...formatBackends(backends, screen)]),
  ];
}

function describeSync({ assessment }: HostStatus): { text: string; tone: Tone } {
  const differences = describeDrift(assessment.plan).length + assessment.missingSwitches.length;
  if (differences === 0) return { text: 'in sync', tone: 'good' };
  return { text: `NOT IN SYNC (${count(differences, 'difference')})`, tone: 'bad' };
}

/** What a line of the foot is about. Lines are below each other. */
function toLabel(word: string): string {
  return word.padEnd('kube-proxy  '.length);
}

function formatFoot(status: HostStatus, screen: Screen): string[] {
  const { assessment, vips, agent } = status;
  const bare = agent === null ? describeBare(assessment) : null;
  const drift = [
    ...assessment.missingSwitches.map(({ name }) => `${name} is 0`),
    ...(bare === null ? describeDrift(assessment.plan) : [bare]),
  ];
  const [first = 'none', ...more] = drift;
  const hasLocal = vips.some(({ backends }) => backends.some(({ isLocal }) => isLocal));
  const kubeProxy = describeKubeProxy(assessment.observation).replace('kube-proxy: ', '');
  return [
    ...describeKeepalived(vips).flatMap((parts) => layOutParts(toLabel('keepalived'), parts, screen)),
    ...layOutParts(toLabel('agent'), describeAgent(status, bare), screen),
    ...describeDrain(status).flatMap((parts) => layOutParts(toLabel('drained'), parts, screen)),
    ...describeSources(assessment).flatMap((text) => layOutText(toLabel('this host'), text, screen)),
    ...layOutText(toLabel('kube-proxy'), kubeProxy, screen),
    ...layOutText(toLabel('drift'), first, screen),
    ...more.flatMap((line) => layOutText(toLabel(''), line, screen)),
    ...describeUnread(assessment.observation.unread).flatMap(({ code, text }) =>
      layOutText(toLabel('warning'), `[${code}] ${text}`, screen),
    ),
    ...[
      ...new Set(assessment.refused),
      ...findDropRules(assessment).map(describeDropRule),
      ...findLocalClientWarnings(assessment, status.agent !== null).map(({ text }) => text),
    ].flatMap((text) => layOutText(toLabel('warning'), toPrintableLine(text), screen)),
    ...(hasLocal ? ['* this node'] : []),
  ];
}

function describeAgent({ agent, activity }: HostStatus, bare: string | null): Part[] {
  if (bare !== null)
    return [{ text: `NOT RUNNING: ${bare}`, tone: 'bad' }, 'vipnat doctor says what is next'];
  if (agent === null) return [{ text: 'NOT RUNNING: rules stay, no agent repairs them', tone: 'bad' }];
  const syncedMsAgo = activity?.syncedMsAgo ?? null;
  return [
    `running, pid ${agent.pid}, since ${agent.since}`,
    ...(syncedMsAgo === null
      ? []
      : [`last sync ${syncedMsAgo < 1000 ? `${Math.round(syncedMsAgo)} ms` : formatAge(syncedMsAgo)} ago`]),
    ...(activity === null ? [] : [count(activity.writes, 'write')]),
  ];
}

function describeDrain({ drain }: HostStatus): Part[][] {
  if (drain === null) return [];
  const vip = drain.vipStaysSince === null ? 'the VIP leaves' : 'the VIP may stay: no other host took it';
  const effect = `no new connections to this apiserver, and ${vip}`;
  const parts = [`since ${drain.since.toISOString()}`, effect, 'vipnat undrain ends it'];
  return [parts.map((text) => ({ text, tone: 'doubtful' as const }))];
}

/** The instances of the VIPs, each once. */
function describeKeepalived(vips: readonly VipStatus[]): Part[][] {
  const keyToParts = new Map(vips.map(describeInstance).map((parts) => [JSON.stringify(parts), parts]));
  return [...keyToParts.values()];
}

function describeInstance(vip: VipStatus): Part[] {
  const { instance, isHidden = false } = vip.keepalived;
  if (!isKeepalivedSeen(vip)) return [isHidden ? 'not seen from this container' : 'none is seen here'];
  const state = toVrrpState(vip) ?? 'running, state not known';
  return [
    {
      text: vip.vrrp === null ? state : `${state} for ${formatAge(vip.vrrp.forMs)}`,
      tone: state === 'FAULT' ? 'bad' : undefined,
    },
    ...(instance === null ? [] : [`vrid ${instance.vrid}`]),
    ...(instance === null || instance.priority === null ? [] : [`priority ${instance.priority}`]),
  ];
}

const firstColumns = ['APISERVER', 'STATE', 'SINCE', '>FLOWS'];

const margin = '  ';

const stateToTone: Readonly<Partial<Record<BackendStatus['state'], Tone>>> = {
  ready: 'good',
  draining: 'doubtful',
  dead: 'bad',
};

/** The table of the apiservers of a VIP. It has a column for shares of new connections only where they differ. */
function formatBackends(backends: readonly BackendStatus[], screen: Screen): string[] {
  // Those that are not in use get nothing, which their state says.
  const used = new Set(backends.map(({ share }) => share).filter((share) => share !== null && share > 0));
  const columns = [...firstColumns, ...(used.size > 1 ? ['>SHARE'] : []), 'WHY'];
  const rows = backends.map((backend) => [...toCells(backend).slice(0, columns.length - 1), backend.reason]);
  return formatTable(columns, rows, screen, margin);
}

function toCells({ endpoint, isLocal, state, isUncorroborated, forMs, flows, share }: BackendStatus): Part[] {
  return [
    `${formatEndpoint(endpoint)}${isLocal ? ' *' : ''}`,
    isUncorroborated ? { text: 'suspected', tone: 'bad' } : { text: state, tone: stateToTone[state] },
    forMs === null ? '' : formatAge(forMs),
    flows === null ? '' : String(flows),
    share === null ? '' : `${Math.round(share * 100)} %`,
  ];
}

/** What `status` says of Services on this host: whether they are balanced, which seats it has, and who keeps it so. No line without Services. */
function formatHostServices(host: HostBalancer, screen: Screen): string[] {
  if (!isUsed(host)) return [];
  const lines: [string, readonly Part[]][] = [
    ['Services', describeServices(host)],
    ...(host.activity === null ? [] : [['seats', describeSeats(host.activity)] as [string, string[]]]),
    ['balancer', describeHostBalancer(host)],
  ];
  return lines.flatMap(([label, parts]) => layOutParts(toLabel(label), parts, screen));
}

function describeServices(host: HostBalancer): Part[] {
  const trouble = findTrouble(host);
  const { activity, tables } = host;
  const counts = activity === null ? [] : describeCounts(activity);
  if (trouble === null) return [activity?.mode ?? '', ...counts];
  const alive = tables.flatMap(({ aliveSeconds }) => (aliveSeconds === null ? [] : [aliveSeconds]));
  const isLeft = tables.length > 0 && alive.length === tables.length;
  const rest = isLeft
    ? `tables count for ${Math.ceil(Math.min(...alive))} s`
    : "kube-proxy's rules, if any, serve them";
  return [{ text: isLeft ? 'NOT KEPT' : 'NOT BALANCED', tone: 'bad' }, trouble, rest, ...counts];
}

type Activity = NonNullable<HostBalancer['activity']>;

function describeCounts({ services, elements, isFollowing, inUse }: Activity): Part[] {
  return [
    `${count(services, 'Service')}, ${count(elements, 'element')}`,
    isFollowing ? 'follows the API' : { text: 'THE API IS AWAY: tables stay', tone: 'doubtful' },
    ...(inUse.length === 0
      ? []
      : [{ text: `another host has ${inUse.join(', ')}`, tone: 'bad' } satisfies Part]),
  ];
}

function describeSeats({ seats, held, isWatched }: Activity): string[] {
  const others = seats.filter((seat) => !held.includes(seat));
  if (seats.length === 0 && held.length === 0) return ['none may be held by this node'];
  return [
    held.length === 0 ? 'none held' : `holds ${held.join(', ')}`,
    ...(others.length === 0 ? [] : [`may hold ${others.join(', ')}`]),
    ...(isWatched === false ? ['keepalived does not look whether the balancer runs'] : []),
  ];
}

function describeHostBalancer({ balancer, activity, tables }: HostBalancer): Part[] {
  if (balancer === null) {
    const what =
      tables.length === 0 ? 'no table of vipnat is here' : `no program renews ${nameTables(tables)}`;
    return [{ text: `NOT RUNNING: ${what}`, tone: 'bad' }];
  }
  const { syncedMsAgo = null, repairs = 0 } = activity ?? {};
  return [
    `running, pid ${balancer.pid}, since ${balancer.since}`,
    ...(syncedMsAgo === null ? [] : [`last sync ${formatAge(syncedMsAgo)} ago`]),
    ...(repairs === 0 ? [] : [count(repairs, 'repair')]),
  ];
}

/** What these commands print in JSON on a host that has Services, and no virtual IP of the API. Ends with a newline. */
export function formatBalancerJson(host: HostBalancer, node: string, more: object = {}): string {
  return formatDocument({ version: 1, node, vips: [], balancer: describeBalancer(host), ...more });
}

/** `balancer` of `status --json` and `check --json`, version 1; null on a host without Services. */
export function describeBalancer(host: HostBalancer): object | null {
  if (!isUsed(host)) return null;
  const { balancer, activity, tables } = host;
  const trouble = findTrouble(host);
  return {
    balanced: trouble === null,
    trouble,
    running: balancer !== null,
    pid: balancer?.pid ?? null,
    since: balancer?.since ?? null,
    ...Object.fromEntries(
      Object.entries(fieldToRead).map(([field, read]) => [field, activity && read(activity)]),
    ),
    tables: tables.map(({ family, aliveSeconds }) => ({ table: nameTable(family), aliveSeconds })),
  };
}

/** All are there, and null without a balancer that says them. */
const fieldToRead: Readonly<Record<string, (activity: Activity) => unknown>> = {
  mode: ({ mode }) => mode,
  services: ({ services }) => services,
  elements: ({ elements }) => elements,
  repairs: ({ repairs }) => repairs,
  followsApi: ({ isFollowing }) => isFollowing,
  lastSyncSecondsAgo: ({ syncedMsAgo }) => (syncedMsAgo === null ? null : syncedMsAgo / 1000),
  behindSeconds: ({ behindMs }) => behindMs / 1000,
  seats: ({ seats }) => seats,
  heldSeats: ({ held }) => held,
  addressesInUse: ({ inUse }) => inUse,
};

const flags = {
  allNodes: toggle('ask the agents of all masters through the Kubernetes API, from any computer'),
  context,
  json,
  watch: watch(1000),
  color,
};

/** `vipnat status`. */
export const status = defineCommand({
  help: `
Examples:
  vipnat status --vip 10.0.0.50
  vipnat status --vip 10.0.0.50 --json
  vipnat status --vip 10.0.0.50 --watch=5
  vipnat status --all-nodes          all masters, where kubectl works

status needs neither the agent nor the API, and changes nothing.
If an agent runs here, no option is needed: the command takes the agent's options.
--all-nodes needs the right to get nodes/proxy or pods/proxy, and agents with
--listen 0.0.0.0:10268. Status 2 is then also for a master that is not known.
Exit status: 0 nothing wrong, 1 failed, 2 not balanced, not in sync or an apiserver down,
78 bad configuration.`,
  flags,
  configOptions: hostOptions,
  agentScope: ({ allNodes }) => (allNodes ? null : 'host'),
  check: ({ options, noVip }) => [
    ...(options.allNodes ? [] : noVip()),
    ...(options.context !== null && !options.allNodes
      ? ['--context is for --all-nodes only. Leave it out']
      : []),
  ],
  run: printStatus,
});

async function printStatus(context: CommandContext<OptionsOf<typeof flags>>): Promise<number> {
  const { config, options, screen, stderr } = context;
  if (options.allNodes) return await printAllNodes(context);
  // Help and mistakes load this file, too.
  const { readStatus } = await import('../../agent/main.ts');
  const { inspectBalancer } = await import('../../balancer/main.ts');
  // Null on a host that has Services alone.
  const readVips = async () => (config.vips.length === 0 ? null : await readStatus(config, stderr));
  return await printScreens(options.watch, context, async () => {
    const [found, services] = await Promise.all([readVips(), inspectBalancer()]);
    const text = () =>
      options.json ? formatAllJson(found, services, nameNode(config)) : formatAll(found, services, screen());
    return { text, isTrouble: (found !== null && isInTrouble(found)) || findTrouble(services) !== null };
  });
}

async function printAllNodes(context: CommandContext<OptionsOf<typeof flags>>): Promise<number> {
  const { config, options, screen } = context;
  const { showAllMasters } = await import('../all-nodes.ts');
  const { findClusterRoute } = await import('../services/read.ts');
  const route = findClusterRoute(config, options.context, systemClock);
  const only = config.vips.map(formatEndpoint);
  return await printScreens(options.watch, context, () =>
    showAllMasters(route, systemClock, only, options.json ? null : screen()).catch((error: unknown) =>
      showFailure(options.watch, error),
    ),
  );
}

function formatAllJson(found: HostStatus | null, services: HostBalancer, node: string): string {
  if (found === null) return formatBalancerJson(services, node);
  return formatStatusJson(found, node, systemClock.date(), { balancer: describeBalancer(services) });
}

function formatAll(found: HostStatus | null, services: HostBalancer, screen: Screen): string {
  const lines = joinLines(formatHostServices(services, screen));
  const blocks = [...(found === null ? [] : [formatStatus(found, screen)]), lines];
  return blocks.filter((block) => block !== '').join('\n');
}
