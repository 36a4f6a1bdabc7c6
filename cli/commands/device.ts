import {
  type Owned,
  formatMember,
  type Change,
  type DeviceState,
  type LoadBalancerDriver,
} from '../../devices/driver.ts';
import {
  type Screen,
  formatTable,
  type Part,
  clean,
  layOutText,
  paint,
  joinLines,
  count,
} from '../output.ts';
import {
  type CheckResult,
  type ConformanceReport,
  openMembers,
  runConformance,
} from '../../devices/conformance/run.ts';
import {
  type OpenDevice,
  chooseSites,
  configure,
  isStateInTrouble,
  loadActions,
  openDevice,
} from '../device/site.ts';
import { type DeviceContext, deviceActions, deviceFlags, deviceWords, readWanted } from '../device/files.ts';
import { systemClock } from '../../lib/clock.ts';
import { constants } from 'node:os';
import { exitStatuses, suggest, formatDocument, quoteText } from '../../lib/text.ts';
import { type Check, describeChange, describeError } from '../../devices/conformance/bench.ts';
import { listChecks } from '../../devices/conformance/steady-checks.ts';
import { VipnatError } from '../../lib/errors.ts';
import { definePlainCommand } from '../command.ts';

const listColumns = ['BALANCER', 'ADDRESSES', 'PORT', 'METHOD', 'MEMBERS'];

function formatList(owned: readonly Owned[], screen: Screen): string {
  if (owned.length === 0) return 'no balancer: the device has none of this cluster\n';
  return joinLines(formatTable(listColumns, owned.flatMap(toRows), screen));
}

function toRows({ balancer, memberToSessions }: Owned): string[][] {
  const { id, addresses, listeners, method, affinityS } = balancer;
  const toMember = (member: (typeof listeners)[number]['members'][number]) => {
    const name = formatMember(member);
    const sessions = memberToSessions?.get(name);
    const weight = member.weight === 1 ? '' : ` weight ${member.weight}`;
    return `${name}${weight}${sessions === undefined ? '' : ` (${sessions} open)`}`;
  };
  const head = [`${id.namespace}/${id.name}`, addresses.map(({ text }) => text).join(', ') || 'none'];
  const affinity = affinityS === null ? '' : `, ${affinityS} s`;
  const rows = listeners.map(({ protocol, port, members }) => [
    ...head,
    `${protocol}/${port}`,
    `${method}${affinity}`,
    members.map(toMember).join(', ') || 'none',
  ]);
  return rows.length === 0 ? [[...head, 'none', method, 'none']] : rows;
}

function formatPlan(changes: readonly Change[], screen: Screen): string {
  if (changes.length === 0) return 'Nothing to change.\n';
  return joinLines([
    ...changes.map((change) => clean(describeChange(change, '→'), screen)),
    '',
    `${count(changes.length, 'change')}. vipnat wrote nothing.`,
  ]);
}

const stateColumns = ['UNIT', 'ROLE', 'IN SYNC', 'WHY'];

const roleToTone = { active: 'good', standby: 'good', unknown: 'doubtful', unresponsive: 'bad' } as const;

function describeSync(isInSync: boolean | null): Part {
  if (isInSync === false) return { text: 'no', tone: 'bad' };
  return isInSync === null ? 'unknown' : 'yes';
}

function formatState({ units, foreignChanges }: DeviceState, screen: Screen): string {
  const rows = units.map(({ unit, role, isInSync, why }): Part[] => [
    unit,
    { text: role, tone: roleToTone[role] },
    describeSync(isInSync),
    why,
  ]);
  const foreign = foreignChanges.flatMap((line) => layOutText('  ', line, screen));
  const notes =
    foreign.length === 0 ? [] : ['', 'Changes of other users that wait to be applied:', ...foreign];
  return joinLines([...formatTable(stateColumns, rows, screen), ...notes]);
}

const outcomeToTone = { passed: 'good', failed: 'bad', 'not run': undefined } as const;

/** One line of a check, and below it why it failed. */
function formatResult(result: CheckResult, screen: Screen): string {
  const { name, title, outcome } = result;
  const word = paint(outcome, outcomeToTone[outcome], screen);
  const gap = ' '.repeat('not run'.length - outcome.length);
  const words = result.outcome === 'not run' ? `needs ${result.needs.join(', ')}` : title;
  const [first = '', ...more] = layOutText('         ', `${name}: ${words}`, screen);
  const why = result.outcome === 'failed' ? layOutText('         ', result.why, screen) : [];
  return joinLines([`${word}${gap}  ${first.trimStart()}`, ...more, ...why]);
}

/** The last line: how many there were of each outcome. */
function formatSummary({ results, interruption }: ConformanceReport, screen: Screen): string {
  const ofOutcome = (wanted: string) => results.filter(({ outcome }) => outcome === wanted).length;
  const end = interruption === null ? [] : layOutText('', `ended early: ${interruption}`, screen);
  const counts = Object.keys(outcomeToTone).map((outcome) => `${ofOutcome(outcome)} ${outcome}`);
  return joinLines([...end, counts.join(', ')]);
}

/**
 * `vipnat device conformance`: prints a line for each check when it has ended and nothing of it is left on the device, so a reader may
 * go away at any time. The first SIGINT, SIGTERM or SIGHUP ends the checks, the second one the removal.
 */
async function conform(opened: OpenDevice, context: DeviceContext): Promise<number> {
  const { options, screen, stdout, stderr } = context;
  const { open, description } = opened;
  const checks = chooseChecks(options.only);
  const sites = chooseSites(description.addresses, options.ports);
  const actions = options.actions === null ? {} : await loadActions(options.actions, opened.settings);
  const members = options.members === null ? null : await openMembers(options.members);
  const stop = watchSignals(stderr);
  const report = await runConformance(
    {
      clock: systemClock,
      open: (cluster, driverContext, identity) => open(driverContext, cluster, identity),
      sites: { ...sites, ...members?.sites },
      actions: { ...members?.actions, ...actions },
    },
    {
      checks,
      signal: stop.checks,
      lastSignal: stop.removal,
      takesLeftovers: options.removeLeftovers,
      onResult: (result) => {
        if (!options.json) stdout(formatResult(result, screen()));
      },
    },
  ).finally(() => {
    stop.end();
    members?.close();
  });
  stdout(options.json ? formatConformanceJson(opened, report) : formatSummary(report, screen()));
  const received = stop.received();
  if (received !== null) return 128 + constants.signals[received];
  return report.results.some(({ outcome }) => outcome === 'failed') ? exitStatuses.found : exitStatuses.done;
}

function chooseChecks(only: readonly string[]): readonly Check[] {
  const checks = listChecks();
  const names = checks.map(({ name }) => name);
  const problems = only
    .filter((name) => !names.includes(name))
    .map((name) => {
      const hint = suggest(name, names, `Checks: ${names.join(', ')}`);
      return `--only ${quoteText(name)} is not a check. ${hint}`;
    });
  if (problems.length > 0) throw new VipnatError('CONFIG_INVALID', problems.join('\n'));
  return only.length === 0 ? checks : checks.filter(({ name }) => only.includes(name));
}

/** `received` answers the first signal; null until it comes. */
function watchSignals(print: (text: string) => void) {
  const [checks, removal] = [new AbortController(), new AbortController()];
  let received: NodeJS.Signals | null = null;
  const onSignal = (name: NodeJS.Signals) => {
    if (received === null) print('vipnat removes what the suite made. A second signal ends the removal\n');
    else removal.abort(new Error('interrupted'));
    received ??= name;
    checks.abort(new Error('interrupted'));
  };
  // The first process of a container has a listener that ends it.
  const former = signals.map((name) => ({ name, listeners: process.listeners(name) }));
  for (const name of signals) process.removeAllListeners(name).on(name, onSignal);
  return {
    checks: checks.signal,
    removal: removal.signal,
    received: () => received,
    end: () => {
      for (const { name, listeners } of former) {
        process.off(name, onSignal);
        for (const listener of listeners) process.on(name, listener);
      }
    },
  };
}

const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** What `vipnat device list --json` prints. Each balancer can be given to `plan`. */
function formatListJson(device: OpenDevice, owned: readonly Owned[]): string {
  return format(device, {
    balancers: owned.map(({ balancer, memberToSessions }) => ({
      ...{ namespace: balancer.id.namespace, name: balancer.id.name, uid: balancer.id.uid },
      addresses: balancer.addresses.map(({ text }) => text),
      ...{ method: balancer.method, affinitySeconds: balancer.affinityS },
      listeners: balancer.listeners.map(({ protocol, port, members }) => ({
        ...{ protocol, port },
        members: members.map((member) => ({
          ...{ address: member.address.text, port: member.port, weight: member.weight },
          sessions: memberToSessions?.get(formatMember(member)) ?? null,
        })),
      })),
    })),
  });
}

function formatStateJson(device: OpenDevice, { units, foreignChanges }: DeviceState): string {
  return format(device, {
    units: units.map(({ unit, role, isInSync, why }) => ({ unit, role, inSync: isInSync, why })),
    foreignChanges,
  });
}

function formatConformanceJson(device: OpenDevice, report: ConformanceReport): string {
  const { capabilities, results, interruption } = report;
  const count = (wanted: string) => results.filter(({ outcome }) => outcome === wanted).length;
  return format(device, {
    capabilities,
    results: results.map((result) => ({
      name: result.name,
      outcome: result.outcome,
      why: result.outcome === 'failed' ? result.why : null,
      needs: result.outcome === 'not run' ? result.needs : [],
    })),
    counts: { passed: count('passed'), failed: count('failed'), notRun: count('not run') },
    interruption,
  });
}

function format({ driver, description: { name, cluster } }: OpenDevice, more: object): string {
  return formatDocument({ version: 1, device: name, driver, cluster, ...more });
}

/** `vipnat device`. */
export const device = definePlainCommand({
  addition: `ACTION is one of ${deviceActions.join(', ')}`,
  usage: 'ACTION --device FILE [options]',
  help: `
Examples:
  vipnat device state --device device.yaml --credentials ./secret
  vipnat device list --device device.yaml --json
  vipnat device plan --device device.yaml --balancer web.yaml
  vipnat device conformance --device device.yaml --driver ./driver.mjs
  vipnat device configuration --device device.yaml --credentials ./secret --unit 1

state, list and plan write nothing. list prints what the device has of the cluster that
the file names, plan what a Service would change. conformance tries a driver on a device
without clients. It makes balancers for two clusters of its own, and removes them again.
configuration prints a shell script that writes the files of a unit of HAProxy.
Without --credentials, the variables VIPNAT_DEVICE_USERNAME and VIPNAT_DEVICE_PASSWORD
have the credentials.
Exit status: 0 printed, or no check failed. 1 the device failed. 2 a check failed, or
state found something. 78 the command line or a file is wrong.`,
  flags: deviceFlags,
  words: deviceWords,
  run: askDevice,
});

async function askDevice(context: DeviceContext): Promise<number> {
  const { options, environment, screen, stdout } = context;
  if (options.action === 'configuration') {
    stdout(await configure(options, environment));
    return exitStatuses.done;
  }
  const opened = await openDevice(options, environment);
  switch (options.action) {
    case 'conformance':
      return await conform(opened, context);
    case 'list': {
      const owned = await ask(opened, (driver, signal) => driver.list(signal));
      stdout(options.json ? formatListJson(opened, owned) : formatList(owned, screen()));
      return exitStatuses.done;
    }
    case 'plan': {
      const wanted = await readWanted(options.balancer ?? '', opened.description.cluster);
      const changes = await ask(opened, (driver, signal) => driver.plan(wanted, signal));
      const shown = changes.map(({ object, before, after }) => ({ object, before, after }));
      stdout(options.json ? format(opened, { changes: shown }) : formatPlan(changes, screen()));
      return exitStatuses.done;
    }
    case 'state':
      return await printState(opened, context);
  }
}

async function printState(opened: OpenDevice, { options, screen, stdout }: DeviceContext): Promise<number> {
  const state = await ask(opened, (driver, signal) => driver.readState(signal));
  stdout(options.json ? formatStateJson(opened, state) : formatState(state, screen()));
  return isStateInTrouble(state) ? exitStatuses.found : exitStatuses.done;
}

/** One question. A person ends it, so nothing else does. */
async function ask<Answer>(
  { open, description: { name } }: OpenDevice,
  question: (driver: LoadBalancerDriver, signal: AbortSignal) => Promise<Answer>,
): Promise<Answer> {
  const driver = open({ clock: systemClock, beforeCall: () => undefined });
  try {
    return await question(driver, new AbortController().signal);
  } catch (error) {
    if (error instanceof VipnatError) throw error;
    const words = describeError(error);
    const line = words.startsWith('refused: ')
      ? `the device ${name} ${words}`
      : `cannot read the device ${name}: ${words}`;
    throw new VipnatError('DEVICE_FAILED', line, { cause: error });
  }
}
