import { formatDocument, findNearest, exitStatuses, toPrintableLine } from '../../lib/text.ts';
import type { planServices } from '../../balancer/main.ts';
import { isUsed } from '../../lib/api/balancer.ts';
import { VipnatError } from '../../lib/errors.ts';
import {
  type Flag,
  text,
  readChoice,
  json,
  toggle,
  type OptionsOf,
  type CommandContext,
  defineCommand,
} from '../command.ts';
import { type Family, families } from '../../lib/net.ts';
import { nameNode } from '../../config/load.ts';
import { planOffline, type ModeEntry, modeToEntry, chooseOfflineMode } from '../../agent/decide/mode.ts';
import {
  selectFamily,
  formatNft,
  formatRestore,
  formatCommands,
  describeTransactions,
} from '../screens/plan.ts';
import { describeUnread, familyToNft } from '../../lib/kernel/port.ts';
import { formatProblems, count } from '../output.ts';
import { toHostAnswer } from '../../agent/report/status.ts';
import { describeInSync } from '../findings.ts';
import type { PlannedRules } from '../../agent/main.ts';
import { type Config, type OptionName, optionNames } from '../../config/options.ts';

/** What the balancer of this host would write now; null where it was not planned. */
type ServicesPlan = Awaited<ReturnType<typeof planServices>> | null;

/** A shell's lines that write it in one transaction; empty where there is nothing to write, or nothing was planned. */
function formatServicesPlan(plan: ServicesPlan): string {
  if (plan === null || plan.commands.length === 0) return '';
  const { commands } = plan;
  return [
    `# Services: the balancer of this node would run ${count(commands.length, 'command')} of nft. Nothing was written.`,
    "nft -f - <<'END'",
    ...commands,
    'END',
    '',
  ].join('\n');
}

/** `plan --json`, with what the balancer of this host would run, or null. Ends with a newline. */
export function formatJson(state: PlannedRules, node: string, balancer: object | null = null): string {
  const transactions = describeTransactions(state.plan);
  return formatDocument({ ...toHostAnswer(state, node), transactions, balancer });
}

/** How it prints, the default first. */
const formats = ['commands', 'restore', 'nft'] as const;

const format: Flag<(typeof formats)[number]> = {
  ...text(
    'FORMAT',
    `how to print the plan: ${formats.join(', ').replace(',', ' (default),')}`,
    (given, reading) => {
      const { all, report } = reading;
      if (given === undefined) return 'commands';
      if (given === 'json') report('--format json is spelled --json. Example: vipnat plan --json');
      else if (all['json'] === true) {
        report('--json and --format exclude each other: each says how to print the plan. Leave one out');
      } else {
        return readChoice(given, formats, findNearest(given, formats) ?? 'restore', reading) ?? 'commands';
      }
      return 'commands';
    },
  ),
  choices: formats,
};

const family: Flag<Family | null> = {
  ...text('FAMILY', `print one family only: ${families.join(', ')}`, (given, reading) =>
    given === undefined ? null : readChoice(given, families, given.includes('6') ? 'ipv6' : 'ipv4', reading),
  ),
  choices: families,
};

const flags = { format, json, family, offline: toggle('read nothing of this host; needs --proxy-mode') };

type PlanContext = CommandContext<OptionsOf<typeof flags>>;

/** `vipnat plan`. */
export const plan = defineCommand({
  help: `
Examples:
  vipnat plan --vip 10.0.0.50
  vipnat plan --vip 10.0.0.50 --format restore --family ipv4
  vipnat plan --vip 10.0.0.50 --json
  vipnat plan --vip 10.0.0.50 --offline --proxy-mode ipvs --cluster-ip 10.96.0.1

plan changes nothing. Rules go to standard output, all else to standard error.
If an agent runs here, no option is needed: the command takes the agent's options.
Exit status: 0 printed or nothing to change, 1 failed, 78 bad configuration.`,
  flags,
  configOptions: optionNames.filter((name) => !['runDir', 'listen', 'logFormat'].includes(name)),
  agentScope: ({ offline }) => (offline ? null : 'given'),
  check: ({ options: { offline }, config, unreadable, noVip, unfitVips }) => [
    ...noVip(),
    ...(offline ? findOfflineProblems(config, unreadable) : unfitVips()),
  ],
  run: runPlan,
});

/** Prints what `run` would write now, and what the balancer of this host would, and writes nothing. */
export async function runPlan(context: PlanContext): Promise<number> {
  const { config, options, stdout } = context;
  const services = await planHostServices(context);
  if (config.vips.length > 0) return await planVips(context, services);
  const answer = { version: 1, node: nameNode(config), vips: [], transactions: [], balancer: services };
  stdout(options.json ? formatDocument(answer) : formatServicesPlan(services));
  return exitStatuses.done;
}

/**
 * None where nothing may be read, and for formats that are about the rules of virtual IPs alone; none without Services here, and where the
 * API could not be asked.
 */
async function planHostServices({ config, options, stderr }: PlanContext): Promise<ServicesPlan> {
  const { offline, json: isJson, format: form, family: only } = options;
  if (offline || (!isJson && form !== 'commands')) return null;
  const note = (text: string) => {
    stderr(`${toPrintableLine(text)}\n`);
  };
  const { planServices, inspectBalancer } = await import('../../balancer/main.ts');
  const host = await inspectBalancer();
  if (!isUsed(host)) return null;
  const route = (await import('../../lib/kubernetes/route.ts')).findRoute({ ...config, vips: [] });
  if (route === null) {
    note('Services: not planned, because the Kubernetes API needs --kubeconfig.');
    return null;
  }
  try {
    const { services, commands } = await planServices(host, route, nameNode(config));
    const own = commands.filter((line) => only === null || line.includes(` ${familyToNft[only]} vipnat-lb`));
    if (own.length === 0) note(`The tables of ${count(services, 'Service')} are in sync. Nothing to change.`);
    return { services, commands: own };
  } catch (error) {
    if (!(error instanceof VipnatError)) throw error;
    note(`[${error.code}] Services: not planned: ${error.message}`);
    return null;
  }
}

async function planVips(context: PlanContext, services: ServicesPlan): Promise<number> {
  const { config, options, stdout, stderr } = context;
  const seen = options.offline
    ? { ...planOffline(config), health: undefined }
    : await (await import('../../agent/main.ts')).readHost(config, stderr);
  const state = selectFamily(seen, options.family);
  stderr(formatProblems(describeUnread(state.observation.unread)));
  stdout(formatPlan(state, context, services));
  if (isInSync(state)) {
    for (const decision of state.decisions)
      stderr(`${describeInSync(decision, seen.health)}. Nothing to change.\n`);
  }
  return exitStatuses.done;
}

function isInSync({ plan, missingSwitches, sourceRoutes }: PlannedRules): boolean {
  return plan.transactions.length === 0 && missingSwitches.length === 0 && sourceRoutes.length === 0;
}

function formatPlan(state: PlannedRules, { config, options, screen }: PlanContext, services: ServicesPlan) {
  if (options.json) return formatJson(state, nameNode(config), services);
  switch (options.format) {
    case 'nft':
      return formatNft(state.decisions, config);
    case 'restore':
      return formatRestore(state);
    case 'commands':
      return `${isInSync(state) ? '' : formatCommands(state, nameNode(config), screen())}${formatServicesPlan(services)}`;
  }
}

/** Nothing may be read, so whatever the balancing mode needs must be given. */
function findOfflineProblems(config: Config, unreadable: ReadonlySet<OptionName>): string[] {
  if (unreadable.has('proxyMode') || unreadable.has('mode')) return [];
  if (config.proxyMode === 'auto')
    return ["--offline needs kube-proxy's proxy mode, because it reads nothing: add --proxy-mode iptables"];
  const { name, needs } = explainNeed(config);
  const isGiven = (family: Family) =>
    needs === 'clusterIp'
      ? config.clusterIps[family] !== undefined
      : config.endpoints.some((endpoint) => endpoint.family === family);
  if (needs === null || unreadable.has(needs)) return [];
  const { what, examples } = needToText[needs];
  return families
    .filter((family) => config.vips.some((vip) => vip.family === family) && !isGiven(family))
    .map((family) => `${name} needs ${what} with --offline: add ${examples[family]}`);
}

type Need = NonNullable<ModeEntry['needs']>;

/** Which choice of the user's asks for what: a forced mode or a method for its own, else the proxy mode for the mode it leads to. */
function explainNeed(config: Config): { name: string; needs: Need | null } {
  const { mode, method, proxyMode } = config;
  const { needs } = modeToEntry[chooseOfflineMode(config)];
  if (mode !== 'auto') return { name: mode, needs };
  if (method !== 'random') return { name: `the method ${method}`, needs };
  return { name: proxyMode === 'none' ? 'balancing without kube-proxy' : proxyMode, needs };
}

const needToText: Readonly<Record<Need, { what: string; examples: Readonly<Record<Family, string>> }>> = {
  clusterIp: {
    what: 'the ClusterIP',
    examples: { ipv4: '--cluster-ip 10.96.0.1', ipv6: '--cluster-ip fd00:10:96::1' },
  },
  endpoints: {
    what: 'the apiservers',
    examples: {
      ipv4: '--endpoints 10.0.0.11:6443,10.0.0.12:6443',
      ipv6: '--endpoints [fd00::11]:6443,[fd00::12]:6443',
    },
  },
};
