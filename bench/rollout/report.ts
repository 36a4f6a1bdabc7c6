import { describeLoad } from '../shared/load.ts';
import { describeRun } from '../shared/machine.ts';
import { writeSection } from '../shared/page.ts';
import { listVersions } from '../shared/programs.ts';
import { pickPercentile } from '../shared/statistics.ts';
import { record, type RoundRecord } from './record.ts';
import { setUpNames, setUps } from './set-ups.ts';

const titles = [
  ...['in front of the pods', 'rounds', 'rounds with a failure', 'failed', 'failing, worst'],
  ...['over a second', 'long ones cut', 'update p50'],
];

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
  const rows = setUpNames.flatMap((setUp) => {
    const some = rounds.filter((round) => round.setUp === setUp);
    return some.length === 0 ? [] : [[setUps[setUp].title, ...summarize(some)]];
  });
  const line = titles.map((_, column) => (column === 0 ? '-' : '-:'));
  return [
    describeRun(
      'scripts/bench rollout',
      rounds.map(({ at }) => at),
      versions,
    ),
    describeLoad(rounds.map(({ load }) => load)),
    '',
    ...[titles, line, ...rows].map((cells) => `| ${cells.join(' | ')} |`),
  ].join('\n');
}

function summarize(rounds: readonly RoundRecord[]): string[] {
  const sum = (read: (round: RoundRecord) => number) =>
    rounds.reduce((total, round) => total + read(round), 0).toLocaleString('en-US');
  const worst = Math.max(...rounds.map(({ windowMs }) => windowMs));
  const updateMs = pickPercentile(
    rounds.map((round) => round.updateMs),
    50,
  );
  return [
    String(rounds.length),
    String(rounds.filter(({ failed }) => failed > 0).length),
    `${sum(({ failed }) => failed)} of ${sum(({ sent }) => sent)}`,
    `${worst.toFixed(0)} ms`,
    sum(({ slow }) => slow),
    `${sum(({ cut }) => cut)} of ${sum(({ held }) => held)}`,
    `${((updateMs ?? 0) / 1000).toFixed(0)} s`,
  ];
}
