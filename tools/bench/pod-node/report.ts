import { listVersions } from '../shared/programs.ts';
import { writeSection } from '../shared/page.ts';
import { record, type RoundRecord } from './record.ts';
import { renderTable, failedOfSent, percentiles, cutOfHeld } from '../shared/round-table.ts';
import { setUpNames, setUps } from './set-ups.ts';
import { faults } from './faults.ts';

/** Writes a table of what is on record into docs/benchmarks.md. Answers the file's path. */
export async function writeReport(kubernetes: string): Promise<string> {
  const versions = listVersions(kubernetes).filter(([name]) => name === 'Kubernetes');
  return await writeSection('pod-node', renderReport(record.read(), versions));
}

/** All that is on record. */
export function renderReport(
  rounds: readonly RoundRecord[],
  versions: readonly (readonly [string, string])[],
): string {
  const lines = renderTable<RoundRecord>({
    ...{ command: 'scripts/bench pod-node', versions, rounds },
    heads: ['fault', 'in front of the pods'],
    rows: setUpNames.map((name) => ({
      heads: [`\`${setUps[name].fault}\``, setUps[name].title],
      has: ({ setUp }) => setUp === name,
    })),
    columns: [
      failedOfSent,
      percentiles('failing', ({ failedMs }) => failedMs, [99]),
      percentiles('slow', ({ slowedMs }) => slowedMs),
      cutOfHeld('long ones reset'),
    ],
  });
  const meanings = Object.entries(faults).map(([name, { meaning }]) => `- \`${name}\`: ${meaning}`);
  return [...lines, '', ...meanings].join('\n');
}
