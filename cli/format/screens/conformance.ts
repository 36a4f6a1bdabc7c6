import { type CheckResult, type ConformanceReport } from '../../../lib/devices/conformance/run.ts';
import { layOutText, paint, type Tone } from '../text/lay-out.ts';
import { type Screen } from '../text/screen.ts';

const outcomeToTone: Readonly<Record<CheckResult['outcome'], Tone | undefined>> = {
  passed: 'good',
  failed: 'bad',
  'not run': undefined,
};

/** One line of a check, and below it why it failed. */
export function formatResult(result: CheckResult, screen: Screen): string {
  const { name, title, outcome } = result;
  const word = paint(outcome, outcomeToTone[outcome], screen);
  const gap = ' '.repeat('not run'.length - outcome.length);
  const [first = '', ...more] = layOutText('         ', `${name}: ${explain(result, title)}`, screen);
  const why = result.outcome === 'failed' ? layOutText('         ', result.why, screen) : [];
  return [`${word}${gap}  ${first.trimStart()}`, ...more, ...why].map((line) => `${line}\n`).join('');
}

function explain(result: CheckResult, title: string): string {
  return result.outcome === 'not run' ? `needs ${result.needs.join(', ')}` : title;
}

/** The last line: how many there were of each outcome. */
export function formatSummary({ results, interruption }: ConformanceReport, screen: Screen): string {
  const count = (outcome: CheckResult['outcome']) =>
    `${results.filter((result) => result.outcome === outcome).length} ${outcome}`;
  const end = interruption === null ? [] : layOutText('', `ended early: ${interruption}`, screen);
  const counts = (['passed', 'failed', 'not run'] as const).map(count).join(', ');
  return [...end, counts].map((line) => `${line}\n`).join('');
}
