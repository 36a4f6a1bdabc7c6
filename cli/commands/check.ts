import type { HostReading, ClosedSwitch, VipDecision } from '../../agent/main.ts';
import { type ForwardChain, type UnreadText, describeUnread } from '../../lib/kernel/port.ts';
import { type OwnerInfo, findLockOwner, agentRole } from '../../lib/http/singleton.ts';
import { type Screen, plainScreen, layOutText, paint, keepTogether, joinLines, count } from '../output.ts';
import {
  describeBare,
  describeInSync,
  describeOutage,
  listUnnamedVips,
  formatRunOnce,
  formatRemoveOnly,
  findLocalClientWarnings,
} from '../findings.ts';
import {
  findDropRules,
  readInputDrops,
  describeDropRule,
  findForeignDrops,
  formatAccept,
} from '../foreign-rules.ts';
import { formatEndpoint } from '../../lib/net.ts';
import { toPrintableLine, quoteWords, formatDocument, exitStatuses } from '../../lib/text.ts';
import { type TablePlan, describeTable, type Drift, vipChainName } from '../../lib/dialect.ts';
import type { ServicesCheck } from '../../balancer/main.ts';
import { isUsed } from '../../lib/api/balancer.ts';
import { describeBalancer, formatBalancerJson } from './status.ts';
import { toHostAnswer } from '../../agent/report/status.ts';
import { json, color, type CommandContext, type OptionsOf, defineCommand, hostOptions } from '../command.ts';
import { findRoute } from '../../lib/kubernetes/route.ts';
import { nameNode, toArguments } from '../../config/load.ts';
import { VipnatError } from '../../lib/errors.ts';

/** What `check` has found. */
export interface CheckFindings {
  readonly assessment: HostReading;
  /** Chains of other software that drop what is forwarded. */
  readonly drops: readonly ForwardChain[];
  /** What drops what arrives here, in nftables; none when left out. */
  readonly inputDrops?: ReturnType<typeof findDropRules>;
  readonly unread: readonly UnreadText[];
  readonly config: Pick<CommandContext<object>['config'], 'sysctls'>;
  /** The one that runs here: no other vipnat may write then. */
  readonly agent: Pick<OwnerInfo, 'pid'> | null;
  /** The flags of this configuration as a shell takes them: `--vip=10.0.0.50:6443`. */
  readonly flags: string;
}

/** What `check` says: each difference with its consequence, then what it warns of. */
export function formatCheck(findings: CheckFindings, screen: Screen = plainScreen): string {
  return joinLines([...formatDrift(findings, screen), ...formatWarnings(findings, screen)]);
}

function formatDrift(findings: CheckFindings, screen: Screen): string[] {
  const { assessment, config } = findings;
  const { decisions, plan, missingSwitches, health } = assessment;
  if (plan.tables.length === 0 && missingSwitches.length === 0) {
    return decisions.flatMap((decision) => {
      const tone = describeOutage(decision, health).length === 0 ? 'good' : 'bad';
      return layOutText('', describeInSync(decision, health), screen).map((line) =>
        paint(line, tone, screen),
      );
    });
  }
  const bare = findings.agent === null ? describeBare(assessment) : null;
  const label = decisions.map(({ vip }) => formatEndpoint(vip)).join(', ');
  const lines = [
    ...missingSwitches.flatMap(describeSwitch),
    ...(bare === null ? plan.tables.flatMap((table) => describeDrift(table, decisions)) : [`drift: ${bare}`]),
    ...(config.sysctls === 'check' && plan.tables.length === 0
      ? ['vipnat leaves it off (--sysctls check)']
      : describeRepair(findings)),
  ];
  const outages = decisions.flatMap((decision) => describeOutage(decision, health).slice(0, 1));
  return [...outages.map((text) => paint(text, 'bad', screen)), ...putLabel(label, lines, screen)];
}

/** What is printed takes no rules of another virtual IP away: whether those are wanted, a person has to say. */
function describeRepair({ assessment, agent, flags }: CheckFindings): string[] {
  if (agent !== null)
    return [`the running agent (pid ${agent.pid}) repairs what differs from its own configuration`];
  const unnamed = listUnnamedVips(assessment);
  const repair = `vipnat run repairs it; ${keepTogether(formatRunOnce(flags, unnamed))} repairs it now`;
  if (unnamed.length === 0) return [repair];
  const names = `no --vip names ${unnamed.map(formatEndpoint).join(', ')}, and vipnat has rules for it here`;
  return [repair, `${names}: name it too, or ${keepTogether(formatRemoveOnly(unnamed))} removes them`];
}

/** In front of the first line; several virtual IPs on a narrow screen have a line of their own. */
function putLabel(label: string, lines: readonly string[], screen: Screen): string[] {
  const isAlone = screen.width !== null && label.length > screen.width / 2;
  const indent = ' '.repeat(isAlone ? 2 : label.length + 2);
  const driftLines = lines.flatMap((line) => layOutMarked(indent, line, 'drift:', screen));
  if (isAlone) return [...layOutText('', label, screen), ...driftLines];
  const [first = '', ...more] = driftLines;
  return [`${label}${first.slice(label.length)}`, ...more];
}

/** A line that begins with a coloured word, or with as many blanks: further lines are indented by their width. */
function layOutMarked(indent: string, line: string, mark: string, screen: Screen): string[] {
  const blank = ' '.repeat(mark.length + 1);
  if (line.startsWith(blank)) return layOutText(`${indent}${blank}`, line.slice(blank.length), screen);
  if (!line.startsWith(`${mark} `)) return layOutText(indent, line, screen);
  const [head = '', ...more] = layOutText(`${indent}${blank}`, line.slice(blank.length), screen);
  return [`${indent}${paint(mark, 'doubtful', screen)} ${head.slice(indent.length + blank.length)}`, ...more];
}

function formatWarnings(findings: CheckFindings, screen: Screen): string[] {
  const { assessment, drops, inputDrops = [], unread, agent } = findings;
  const layOut = (line: string) => layOutMarked('', line, 'warning:', screen);
  return [
    ...unread.flatMap(({ code, text }) => layOut(`warning: [${code}] ${text}`)),
    ...new Set(assessment.refused.flatMap((sentence) => layOut(`warning: ${sentence}`))),
    ...findLocalClientWarnings(assessment, agent !== null).flatMap(({ text, command }) =>
      warn(text, command === null ? [] : [command]).flatMap(layOut),
    ),
    ...drops.flatMap((drop) => describeDrop(drop).flatMap(layOut)),
    ...[...findDropRules(assessment), ...inputDrops].flatMap((one) =>
      warn(describeDropRule(one), [one.remedy]).flatMap(layOut),
    ),
  ];
}

function warn(text: string, commands: readonly string[]): string[] {
  return [`warning: ${toPrintableLine(text)}`, ...commands.map((one) => `         ${keepTogether(one)}`)];
}

/** No drift: the rules are as vipnat would write them, and do not help there. */
function describeDrop({ table, name }: ForwardChain): string[] {
  return [
    `warning: chain ${toPrintableLine(name)} of table ${toPrintableLine(table)} drops forwarded packets (policy drop), and only its owner can change that`,
    `         connections to apiservers on other nodes hang unless it has a rule like: ${keepTogether(formatAccept({ table, name }))}`,
  ];
}

function describeSwitch({ name, command }: ClosedSwitch): string[] {
  return [
    `drift: ${name} is 0: IP forwarding is off`,
    `       connections to apiservers on other nodes would hang; ${keepTogether(command)} switches it on`,
  ];
}

function describeDrift(table: TablePlan, decisions: readonly VipDecision[]): string[] {
  return table.drift.flatMap((part) => {
    const consequence = describeConsequence(part, decisions);
    return [
      `drift: ${part.message} (${describeTable(table)})`,
      ...(consequence === null ? [] : [`       ${consequence}`]),
    ];
  });
}

/**
 * `check --json`, version 1: what `status --json` says of the host, then each difference with its meaning for people, and
 * the foreign chains that drop what is balanced. Ends with a newline.
 */
export function formatCheckJson(
  findings: Pick<CheckFindings, 'assessment' | 'drops' | 'unread'> & { readonly services: ServicesCheck },
  node: string,
): string {
  const { assessment, drops, unread, services } = findings;
  const { plan, decisions } = assessment;
  const drift = plan.tables.flatMap(({ family, dialect, table, drift: parts }) =>
    parts.map((part) => ({
      ...{ family, backend: dialect, table },
      ...{ chain: part.chain, kind: part.kind, message: part.message },
      consequence: describeConsequence(part, decisions),
    })),
  );
  const foreignDrops = drops.map(({ table, name }) => ({ table, chain: name }));
  const balancer = isUsed(services.host)
    ? { ...describeBalancer(services.host), drift: services.drift, unread: services.unread }
    : null;
  return formatDocument({ ...toHostAnswer(assessment, node), drift, foreignDrops, unread, balancer });
}

/** What a difference means for people, in one sentence; null where it means nothing that can be said in general. */
function describeConsequence({ chain, kind }: Drift, decisions: readonly VipDecision[]): string | null {
  const consequence = chainToConsequence.get(chain.toUpperCase());
  if (unhooked.includes(kind) && consequence !== undefined) return consequence;
  const decision = decisions.find(({ vip }) => vipChainName(vip) === chain);
  return decision === undefined
    ? null
    : `${formatEndpoint(decision.vip)} should have the balancing mode ${decision.mode}`;
}

/** What it means for people that a hook is not in its place. */
const chainToConsequence = new Map([
  ['PREROUTING', "clients on other hosts reach only the VIP holder's apiserver"],
  ['OUTPUT', "clients on this host reach only the VIP holder's apiserver"],
  ['POSTROUTING', 'connections to apiservers on other nodes hang: replies take another path'],
  ['FORWARD', 'a FORWARD policy of DROP drops connections to apiservers on other nodes'],
]);

const unhooked = ['missing-hook', 'hook-behind-foreign-rule', 'missing-chain', 'edited-table'];

const label = 'Services  ';

/** What `check` says of Services on this host; empty without any. */
function formatServicesCheck(found: ServicesCheck, screen: Screen): string {
  if (!isUsed(found.host)) return '';
  const warnings = found.unread.flatMap((text) => layOutText('warning: ', text, screen));
  return joinLines([...formatServicesDrift(found, screen), ...warnings]);
}

function formatServicesDrift({ host, drift, commands }: ServicesCheck, screen: Screen): string[] {
  const { activity, balancer } = host;
  if (drift.length === 0) {
    const services = count(activity?.services ?? 0, 'Service');
    const words = commands === null ? 'are balanced' : 'are balanced, and the tables are in sync';
    const text = `Services ${words} (${activity?.mode ?? ''}, ${services}). Nothing to change.`;
    return layOutText('', text, screen).map((line) => paint(line, 'good', screen));
  }
  const repair =
    balancer === null
      ? "kube-proxy's rules, if any, get the connections; a balancer that starts repairs it"
      : `the running balancer (pid ${balancer.pid}) repairs what differs; its log says why if it does not`;
  const blank = ' '.repeat(label.length);
  return [
    ...drift.flatMap((text, at) => layOutText(`${at === 0 ? label : blank}drift: `, text, screen)),
    ...layOutText(`${blank}       `, repair, screen),
  ];
}

const flags = { json, color };

type CheckContext = CommandContext<OptionsOf<typeof flags>>;

/** `vipnat check`. */
export const check = defineCommand({
  help: `
Examples:
  vipnat check --vip 10.0.0.50
  vipnat check --vip 10.0.0.50 --json

If an agent runs here, no option is needed: the command takes the agent's options.
Exit status: 0 in sync, 1 failed, 2 drift, or no apiserver is ready, 78 bad configuration.`,
  flags,
  configOptions: hostOptions,
  agentScope: () => 'host',
  check: ({ noVip }) => noVip(),
  run: compare,
});

/** While no apiserver is ready, correct rules lead to nobody. */
async function compare(context: CheckContext): Promise<number> {
  const { config } = context;
  const { checkServices } = await import('../../balancer/main.ts');
  const services = await checkServices({ route: findRoute({ ...config, vips: [] }), node: nameNode(config) });
  if (config.vips.length === 0) return reportServices(services, context);
  const isWell = await checkVips(services, context);
  return isWell && services.drift.length === 0 ? exitStatuses.done : exitStatuses.found;
}

/** On a host without a virtual IP of the API. */
function reportServices(services: ServicesCheck, { config, options, screen, stdout }: CheckContext): number {
  const { drift, unread } = services;
  stdout(
    options.json
      ? formatBalancerJson(services.host, nameNode(config), { inSync: drift.length === 0, drift, unread })
      : formatServicesCheck(services, screen()),
  );
  return drift.length === 0 ? exitStatuses.done : exitStatuses.found;
}

async function checkVips(
  services: ServicesCheck,
  { config, given, options, screen, stdout, stderr }: CheckContext,
): Promise<boolean> {
  const { readHost } = await import('../../agent/main.ts');
  const [assessment, agent] = await Promise.all([readHost(config, stderr), findLockOwner(agentRole)]);
  const { problems, ...dropping } = await findDrops(assessment);
  const unread = [...describeUnread(assessment.observation.unread), ...problems];
  const flags = quoteWords(toArguments(config, given));
  const findings = { assessment, ...dropping, unread, services, config, agent, flags };
  const { decisions, health, plan, missingSwitches } = assessment;
  const isServed = decisions.every((decision) => describeOutage(decision, health).length === 0);
  stdout(
    options.json
      ? formatCheckJson(findings, nameNode(config))
      : `${formatCheck(findings, screen())}${formatServicesCheck(services, screen())}`,
  );
  return isServed && plan.tables.length === 0 && missingSwitches.length === 0;
}

/** The rules are compared also where foreign chains cannot be listed. */
async function findDrops(assessment: HostReading) {
  const { createKernel } = await import('../../lib/kernel/kernel.ts');
  try {
    const chains = await createKernel({ onProblem: () => undefined }).listForwardChains();
    const inputDrops = await readInputDrops(assessment);
    return { drops: findForeignDrops(chains, assessment), inputDrops, problems: [] };
  } catch (error) {
    if (!(error instanceof VipnatError)) throw error;
    const text = `not checked: chains of nftables that drop packets (${error.message})`;
    return { drops: [], inputDrops: [], problems: [{ code: error.code, text }] };
  }
}
