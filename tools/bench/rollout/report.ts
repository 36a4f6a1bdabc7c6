import { listVersions } from '../shared/programs.ts';
import { writeSection } from '../shared/page.ts';
import { record, type RoundRecord } from './record.ts';
import { renderTable, failedOfSent, formatMs, sum, cutOfHeld, percentiles } from '../shared/round-table.ts';
import { setUpNames, setUps } from './set-ups.ts';

/** Writes a table of what is on record into docs/benchmarks.md. Answers the file's path. */
export async function writeReport(kubernetes: string): Promise<string> {
  const versions = listVersions(kubernetes).filter(([name]) => name !== 'HAProxy');
  return await writeSection('rollout', renderReport(record.read(), versions));
}

/** All that is on record. */
export function renderReport(
  rounds: readonly RoundRecord[],
  versions: readonly (readonly [string, string])[],
): string {
  return renderTable<RoundRecord>({
    ...{ command: 'scripts/bench rollout', versions, rounds },
    heads: ['in front of the pods'],
    rows: setUpNames.map((name) => ({ heads: [setUps[name].title], has: ({ setUp }) => setUp === name })),
    columns: [
      {
        titles: ['rounds with a failure'],
        summarize: (some) => [String(some.filter(({ failed }) => failed > 0).length)],
      },
      failedOfSent,
      {
        titles: ['failing, worst'],
        summarize: (some) => [formatMs(Math.max(...some.map(({ windowMs }) => windowMs)))],
      },
      { titles: ['over a second'], summarize: (some) => [sum(some, ({ slow }) => slow)] },
      cutOfHeld('long ones cut'),
      percentiles('update', ({ updateMs }) => updateMs),
    ],
  }).join('\n');
}
