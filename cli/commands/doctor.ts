import type { Examination, Found, NextStep, TopicOutcome, Outcome } from '../doctor/examine.ts';
import { formatDocument, exitStatuses, toPrintableLine, version, quoteWords } from '../../lib/text.ts';
import { type Screen, plainScreen, proseWidth, layOutText, type Tone, paint, count } from '../output.ts';
import {
  json,
  toggle,
  text,
  bySchema,
  color,
  defineCommand,
  hostOptions,
  type CommandContext,
  type OptionsOf,
} from '../command.ts';
import { duration } from '../../config/options.ts';
import { toArguments, nameNode } from '../../config/load.ts';
import { systemClock } from '../../lib/clock.ts';
import { hostname } from 'node:os';

/**
 * `doctor --json`, version 1: every check with its topic, code and level, findings first and with the texts that people read, and what to
 * do next. `pending` counts those of `skipped` whose subject is only not there yet. Ends with a newline.
 */
export function formatDoctorJson({ stage, topics, next }: Examination, node: string): string {
  const checks = topics.flatMap(({ name, outcomes }) => outcomes.map((one) => ({ topic: name, ...one })));
  return formatDocument({ version: 1, node, stage, ...countOutcomes(topics), checks, next });
}

type Page = Screen & { readonly width: number };

type OutcomeCounts = ReturnType<typeof countOutcomes>;

/** Counts what became of all checks: `skipped` are also those that are pending, whose subject is only not there yet. */
function countOutcomes(topics: readonly TopicOutcome[]) {
  const all = topics.flatMap(({ outcomes }) => outcomes);
  const ofLevel = (level: Outcome['level']) => all.filter((outcome) => outcome.level === level).length;
  return {
    failures: ofLevel('fail'),
    warnings: ofLevel('warn'),
    ok: ofLevel('ok'),
    skipped: ofLevel('skipped'),
    pending: all.filter(isPending).length,
  };
}

/** The exit status for what was found: failures count before warnings. What was not checked is no finding. */
export function chooseDoctorStatus({ failures, warnings }: OutcomeCounts): number {
  if (failures > 0) return exitStatuses.foundFailures;
  return warnings > 0 ? exitStatuses.found : exitStatuses.done;
}

function isPending(outcome: Outcome): boolean {
  return outcome.level === 'skipped' && outcome.pending === true;
}

/** One screen: what was found, and what to do next where no agent has run yet. */
export function formatExamination(
  { topics, next }: Examination,
  isAll: boolean,
  screen: Screen = plainScreen,
): string {
  const found = formatDoctor(topics, isAll, screen);
  if (next.length === 0) return found;
  const page = { ...screen, width: screen.width ?? proseWidth };
  const steps = next.flatMap((step, index) => formatStep(step, index + 1, page));
  const lead = layOutText('', 'No vipnat agent has run on this host yet. Next, in this order:', page);
  return `${found}\n${[...lead, '', ...steps].join('\n')}\n`;
}

function formatStep({ title, commands }: NextStep, number: number, screen: Page): string[] {
  return [
    ...putMark(` ${number}.`.padEnd(indent.length), layOutText(indent, title, screen)),
    ...commands.map((line) => `${wide}${toPrintableLine(line)}`),
  ];
}

/** One screen: successful checks in a line for each topic, then failures, warnings and what was not checked, then the sum. */
export function formatDoctor(topics: readonly TopicOutcome[], isAll: boolean, screen = plainScreen): string {
  const outcomes = topics.flatMap((topic) => topic.outcomes);
  const found = outcomes.filter((one) => 'title' in one);
  const pending = [...new Set(outcomes.filter(isPending).map(({ code }) => code))];
  const page = { ...screen, width: screen.width ?? proseWidth };
  const lines = [
    ...topics.flatMap((topic) => formatWell(topic, isAll, page)),
    ...found.filter(({ level }) => level === 'fail').flatMap((one) => formatFinding(one, page)),
    ...found.filter(({ level }) => level === 'warn').flatMap((one) => formatFinding(one, page)),
    // What is only not there yet has its place in the steps.
    ...(pending.length === 0 ? [] : formatUnchecked(`not there yet: ${pending.join(', ')}`, page)),
    ...formatSkipped(outcomes, page),
  ];
  return `${[...lines, '', ...layOutText('', formatSum(countOutcomes(topics)), page)].join('\n')}\n`;
}

/** The indent of lines below ` FAIL  `. */
const indent = ' '.repeat(7);
const wide = ' '.repeat(9);

/** The column at which the sums of checks begin, so that they are near to their topics. */
const sumColumn = 80;

/** The first column in its tone: it is as wide as `indent`. */
function formatMark(mark: string, tone: Tone | undefined, screen: Screen): string {
  return ` ${paint(mark, tone, screen)}${' '.repeat(indent.length - 1 - mark.length)}`;
}

function formatWell({ name, outcomes }: TopicOutcome, isAll: boolean, screen: Page): string[] {
  const well = outcomes.filter(({ level }) => level === 'ok');
  if (outcomes.length === 0) return formatUnchecked(`${name}: not on this host`, screen);
  if (well.length === 0) return [];
  const mark = formatMark('ok', 'good', screen);
  if (isAll) return [`${mark}${name}`, ...well.map(({ code }) => `${wide}${code}`)];
  const sum = count(well.length, 'check');
  const width = Math.min(sumColumn, screen.width) - indent.length;
  return [`${mark}${name}${sum.padStart(width - name.length)}`];
}

function formatFinding({ level, title, why, remedy }: Found, screen: Page): string[] {
  const mark = level === 'fail' ? formatMark('FAIL', 'bad', screen) : formatMark('WARN', 'doubtful', screen);
  return [
    ...putMark(mark, layOutText(indent, title, screen)),
    ...layOutText(wide, why, screen),
    // Never broken, and no character of them changed: they are to be pasted.
    ...remedy.map((line) => `${wide}${toPrintableLine(line)}`),
  ];
}

function putMark(mark: string, [first = '', ...more]: readonly string[]): string[] {
  return [`${mark}${first.slice(indent.length)}`, ...more];
}

function formatUnchecked(text: string, screen: Page): string[] {
  return putMark(formatMark('--', undefined, screen), layOutText(indent, text, screen));
}

/** Checks that have the same cause are reported once. */
function formatSkipped(outcomes: readonly Outcome[], screen: Page): string[] {
  const skipped = outcomes.filter((one) => one.level === 'skipped');
  const unchecked = skipped.filter((one) => !isPending(one));
  return [...Map.groupBy(unchecked, ({ reason }) => reason)].flatMap(([reason, same]) => [
    ...formatUnchecked(`not checked: ${same.map(({ code }) => code).join(', ')}`, screen),
    ...layOutText(wide, reason, screen),
  ]);
}

function formatSum({ failures, warnings, ok, skipped, pending }: OutcomeCounts): string {
  return [
    count(failures, 'failure'),
    count(warnings, 'warning'),
    `${ok} ok`,
    ...(pending === 0 ? [] : [`${pending} not there yet`]),
    ...(skipped === pending ? [] : [`${skipped - pending} not checked`]),
  ].join(', ');
}

/** Three adverts a second apart, as keepalived sends them by default. */
const defaultCaptureMs = 3500;

const flags = {
  json,
  all: toggle('also list the checks that found nothing'),
  capture: text(
    'DURATION',
    'how long to listen to VRRP adverts; 0s: not at all (default: 3.5s)',
    bySchema(duration(0, 60_000), defaultCaptureMs, '5s'),
  ),
  color,
};

/** Its user may not have a virtual IP yet. */
const hint =
  ". Name the address at which clients reach the API. For a new cluster, choose a free address of the masters' network";

/** `vipnat doctor`. */
export const doctor = defineCommand({
  help: `
Examples:
  vipnat doctor --vip 10.0.0.50
  vipnat doctor --vip 10.0.0.50 --json
  vipnat doctor --vip 10.0.0.50 --capture 0s     without listening to VRRP adverts

Use doctor before an installation, and when something is wrong. doctor needs neither
the agent nor the API, changes nothing, and lists what it could not check.
If an agent runs here, no option is needed: the command takes the agent's options.
Exit status: 0 nothing wrong, 1 failed, 2 warnings, 3 failures found, 78 bad configuration.`,
  flags,
  configOptions: hostOptions,
  agentScope: () => 'host',
  check: ({ noVip }) => noVip(hint),
  run: examineHost,
});

async function examineHost(context: CommandContext<OptionsOf<typeof flags>>): Promise<number> {
  const { config, given, options, screen, stdout, stderr } = context;
  // Help and mistakes load this file, too.
  const [{ gatherFacts }, { examine }, { readHost }, { createKernel }, { connectOnce }, { findRoute }] =
    await Promise.all([
      import('../doctor/gather.ts'),
      import('../doctor/examine.ts'),
      import('../../agent/main.ts'),
      import('../../lib/kernel/kernel.ts'),
      import('../../lib/http/client.ts'),
      import('../../lib/kubernetes/route.ts'),
    ]);
  if (process.stderr.isTTY && options.capture > 0)
    stderr(`listening to VRRP adverts for ${options.capture / 1000} s\n`);
  const facts = await gatherFacts({
    config,
    version,
    flags: quoteWords(toArguments(config, given)),
    clock: systemClock,
    kernel: createKernel({ onProblem: () => undefined }),
    // In order: its end takes nothing from the peer's kernel.
    connect: (endpoint, limitMs) => connectOnce(systemClock, endpoint, { limitMs, end: 'close' }),
    readHost: () => readHost(config, stderr),
    captureMs: options.capture,
    route: findRoute({ ...config, vips: [] }),
    node: nameNode(config),
  });
  const found = examine(facts);
  stdout(
    options.json ? formatDoctorJson(found, hostname()) : formatExamination(found, options.all, screen()),
  );
  return chooseDoctorStatus(countOutcomes(found.topics));
}
