import { listVersions } from '../shared/programs.ts';
import { writeSection } from '../shared/page.ts';
import { record, type RoundRecord } from './record.ts';
import { renderTable, failedOfSent, cutOfHeld, percentiles } from '../shared/round-table.ts';
import { setUpNames, setUps } from './set-ups.ts';

/** Writes a table of what is on record into docs/benchmarks.md. Answers the file's path. */
export async function writeReport(kubernetes: string): Promise<string> {
  const versions = listVersions(kubernetes).filter(([name]) => name === 'Kubernetes');
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
      cutOfHeld('long ones cut'),
      percentiles('update', ({ updateMs }) => updateMs, [50]),
    ],
  }).join('\n');
}
