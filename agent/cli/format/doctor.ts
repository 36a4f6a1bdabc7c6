import { exitStatuses } from '../../../lib/exit-status.ts';
import { toPrintableLine } from '../../../lib/printable.ts';
import { wrap } from './wrap.ts';
import { type Outcome, type TopicOutcome } from '../../doctor/diagnose.ts';

/** How many outcomes there are of each kind. */
export interface OutcomeCounts {
  readonly failures: number;
  readonly warnings: number;
  readonly ok: number;
  readonly skipped: number;
}

/** Counts what became of all checks. */
export function countOutcomes(topics: readonly TopicOutcome[]): OutcomeCounts {
  const count = (level: Outcome['level']) =>
    topics.flatMap(({ outcomes }) => outcomes).filter((outcome) => outcome.level === level).length;
  return { failures: count('fail'), warnings: count('warn'), ok: count('ok'), skipped: count('skipped') };
}

/** The exit status for what was found: failures count before warnings. What was not checked is no finding. */
export function chooseDoctorStatus({ failures, warnings }: OutcomeCounts): number {
  if (failures > 0) return exitStatuses.foundFailures;
  return warnings > 0 ? exitStatuses.found : exitStatuses.done;
}

/** One screen: what is well in a line for each topic, then failures, warnings and what was not checked, then the sum. */
export function formatDoctor(topics: readonly TopicOutcome[], isAll: boolean): string {
  const outcomes = topics.flatMap((topic) => topic.outcomes);
  const blocks = [
    ...topics.flatMap((topic) => formatWell(topic, isAll)),
    ...outcomes.filter(({ level }) => level === 'fail').flatMap(formatOutcome),
    ...outcomes.filter(({ level }) => level === 'warn').flatMap(formatOutcome),
    ...formatSkipped(outcomes),
  ];
  return `${blocks.map(toPrintableLine).join('\n')}\n\n${formatSum(countOutcomes(topics))}\n`;
}

/** ` FAIL  `, and what stands under it. */
const indent = ' '.repeat(7);
const wide = ' '.repeat(9);
const lineWidth = 80;
const nameWidth = 52;

function formatWell({ name, outcomes }: TopicOutcome, isAll: boolean): string[] {
  const well = outcomes.filter(({ level }) => level === 'ok');
  if (well.length === 0) return [];
  if (isAll) return [` ok    ${name}`, ...well.map(({ code }) => `${wide}${code}`)];
  const count = `${well.length} check${well.length === 1 ? '' : 's'}`;
  return [` ok    ${name.padEnd(nameWidth)}${count.padStart(lineWidth - nameWidth - indent.length)}`];
}

function formatOutcome(outcome: Outcome): string[] {
  if (outcome.level !== 'fail' && outcome.level !== 'warn') return [];
  const [first = '', ...more] = wrap(outcome.title, lineWidth - indent.length);
  return [
    ` ${outcome.level === 'fail' ? 'FAIL' : 'WARN'}  ${first}`,
    ...more.map((line) => `${indent}${line}`),
    ...wrap(outcome.why, lineWidth - wide.length).map((line) => `${wide}${line}`),
    // Never broken: they are to be pasted.
    ...outcome.remedy.map((line) => `${wide}${line}`),
  ];
}

/** Checks that have the same cause are told once. */
function formatSkipped(outcomes: readonly Outcome[]): string[] {
  const reasonToCodes = new Map<string, string[]>();
  for (const outcome of outcomes) {
    if (outcome.level !== 'skipped') continue;
    reasonToCodes.set(outcome.reason, [...(reasonToCodes.get(outcome.reason) ?? []), outcome.code]);
  }
  return [...reasonToCodes].flatMap(([reason, codes]) => {
    const [first = '', ...more] = wrap(`not checked: ${codes.join(', ')}`, lineWidth - indent.length);
    return [
      ` --    ${first}`,
      ...more.map((line) => `${indent}${line}`),
      ...wrap(reason, lineWidth - wide.length).map((line) => `${wide}${line}`),
    ];
  });
}

function formatSum({ failures, warnings, ok, skipped }: OutcomeCounts): string {
  const plural = (count: number, word: string) => `${count} ${word}${count === 1 ? '' : 's'}`;
  return [
    plural(failures, 'failure'),
    plural(warnings, 'warning'),
    `${ok} ok`,
    ...(skipped === 0 ? [] : [`${skipped} not checked`]),
  ].join(', ');
}
