import { listVersions } from '../shared/programs.ts';
import { metallbModule } from '../../lab/build/module.ts';
import { writeSection } from '../shared/page.ts';
import { record, type RoundRecord } from './record.ts';
import { faultNames, faults } from './faults.ts';
import { setUpNames, setUps } from './set-ups.ts';
import { describeRun } from '../shared/machine.ts';
import { describeLoad } from '../shared/load.ts';
import { pickPercentile } from '../shared/statistics.ts';

const titles = ['fault', 'addresses', 'set-up', 'rounds', 'all answer p50', 'p99'];

/** Writes a table of what is on record into docs/benchmarks.md. Answers the file's path. */
export async function writeReport(kubernetes: string): Promise<string> {
  const versions = listVersions(kubernetes).filter(([name]) => name === 'Kubernetes');
  const all = [...versions, ['MetalLB', metallbModule.version.slice(1)] as const];
  return await writeSection('takeover', renderReport(record.read(), all));
}

/** All that is on record. */
export function renderReport(
  rounds: readonly RoundRecord[],
  versions: readonly (readonly [string, string])[],
): string {
  const counts = [...new Set(rounds.map(({ addresses }) => addresses))].sort((a, b) => a - b);
  const rows = faultNames.flatMap((fault) =>
    counts.flatMap((addresses) =>
      setUpNames.flatMap((setUp) => {
        const some = rounds.filter(
          (round) => round.fault === fault && round.addresses === addresses && round.setUp === setUp,
        );
        const names = [`\`${fault}\``, addresses.toLocaleString('en-US'), setUps[setUp].title];
        return some.length === 0 ? [] : [[...names, ...summarize(some)]];
      }),
    ),
  );
  const line = titles.map((_, column) => ([0, 2].includes(column) ? '-' : '-:'));
  return [
    describeRun(
      'scripts/bench takeover',
      rounds.map(({ at }) => at),
      versions,
    ),
    describeLoad(rounds.map(({ load }) => load)),
    '',
    ...[titles, line, ...rows].map((cells) => `| ${cells.join(' | ')} |`),
    '',
    ...faultNames.map((fault) => `- \`${fault}\`: ${faults[fault].meaning}`),
  ].join('\n');
}

function summarize(rounds: readonly RoundRecord[]): string[] {
  const all = rounds.map(({ allMs }) => allMs ?? Infinity);
  return [String(rounds.length), ...[50, 99].map((percent) => formatMs(pickPercentile(all, percent)))];
}

function formatMs(ms: number | undefined): string {
  if (ms === undefined || !Number.isFinite(ms)) return '> 60 s';
  return ms < 1000 ? `${ms.toFixed(0)} ms` : `${(ms / 1000).toFixed(1)} s`;
}
