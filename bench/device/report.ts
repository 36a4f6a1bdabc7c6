import { describeLoad } from '../shared/load.ts';
import { describeRun } from '../shared/machine.ts';
import { writeSection } from '../shared/page.ts';
import { listVersions } from '../shared/programs.ts';
import { pickPercentile } from '../shared/statistics.ts';
import { record, type RoundRecord } from './record.ts';
import { setUpNames, setUps } from './set-ups.ts';

const titles = [
  ...['during the update', 'rounds', 'failed', 'failing p50', 'failing p99', 'slow p50', 'slow p99'],
  ...['stale', 'update p50', 'update p99'],
];

/** Writes a table of what is on record into docs/benchmarks.md. Answers the file's path. */
export async function writeReport(): Promise<string> {
  const versions = listVersions('').filter(([name]) => ['keepalived', 'HAProxy', 'Node.js'].includes(name));
  return await writeSection('device', renderReport(record.read(), versions));
}

/** All that is on record. */
export function renderReport(
  rounds: readonly RoundRecord[],
  versions: readonly (readonly [string, string])[],
): string {
  const rows = setUpNames.flatMap((name) => {
    const some = rounds.filter(({ setUp }) => setUp === name);
    return some.length === 0 ? [] : [[setUps[name].title, ...summarize(some)]];
  });
  const line = titles.map((_, column) => (column === 0 ? '-' : '-:'));
  const dates = rounds.map(({ at }) => at);
  return [
    describeRun('scripts/bench device', dates, versions),
    describeLoad(rounds.map(({ load }) => load)),
    '',
    ...[titles, line, ...rows].map((cells) => `| ${cells.join(' | ')} |`),
  ].join('\n');
}

function summarize(rounds: readonly RoundRecord[]): string[] {
  const sum = (read: (round: RoundRecord) => number) =>
    rounds.reduce((total, round) => total + read(round), 0).toLocaleString('en-US');
  const pick = (read: (round: RoundRecord) => number) =>
    [50, 99].map((percent) => formatMs(pickPercentile(rounds.map(read), percent) ?? 0));
  return [
    String(rounds.length),
    `${sum(({ failed }) => failed)} of ${sum(({ sent }) => sent)}`,
    ...pick(({ failedMs }) => failedMs),
    ...pick(({ slowedMs }) => slowedMs),
    sum(({ stale }) => stale),
    ...pick(({ updateMs }) => updateMs),
  ];
}

function formatMs(ms: number): string {
  return ms < 1000 ? `${ms.toFixed(0)} ms` : `${(ms / 1000).toFixed(1)} s`;
}
