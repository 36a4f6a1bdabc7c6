import { listVersions } from '../shared/programs.ts';
import { writeSection } from '../shared/page.ts';
import { record, type RoundRecord } from './record.ts';
import { renderTable, failedOfSent, percentiles, sum } from '../shared/round-table.ts';
import { setUpNames, setUps } from './set-ups.ts';

/** Writes a table of what is on record into docs/benchmarks.md. Answers the file's path. */
export async function writeReport(): Promise<string> {
  const versions = listVersions('').filter(([name]) => ['keepalived', 'HAProxy'].includes(name));
  return await writeSection('device', renderReport(record.read(), versions));
}

/** All that is on record. */
export function renderReport(
  rounds: readonly RoundRecord[],
  versions: readonly (readonly [string, string])[],
): string {
  return renderTable<RoundRecord>({
    ...{ command: 'scripts/bench device', versions, rounds },
    heads: ['during the update'],
    rows: setUpNames.map((name) => ({ heads: [setUps[name].title], has: ({ setUp }) => setUp === name })),
    columns: [
      failedOfSent,
      percentiles('failing', ({ failedMs }) => failedMs, [99]),
      percentiles('slow', ({ slowedMs }) => slowedMs, [99]),
      { titles: ['stale'], summarize: (some) => [sum(some, ({ stale }) => stale)] },
      percentiles('update', ({ updateMs }) => updateMs, [50]),
    ],
  }).join('\n');
}
