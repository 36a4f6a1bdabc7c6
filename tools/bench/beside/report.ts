import { type RoundRecord, record } from './record.ts';
import { median, pickPercentile } from '../shared/statistics.ts';
import { listVersions } from '../shared/programs.ts';
import { writeSection } from '../shared/page.ts';
import { describeRun } from '../shared/machine.ts';
import { describeLoad } from '../shared/load.ts';
import { setUpNames, setUps } from './set-ups.ts';

/** A figure of some rounds, as a column has it. */
type Column = readonly [title: string, render: (rounds: readonly RoundRecord[]) => string];

const columns: readonly Column[] = [
  ['rounds', (rounds) => String(rounds.length)],
  ...listPercentiles('new connection', (round) => round.tookMs, formatShort),
  [
    'failed',
    (rounds) => {
      const sent = sum(rounds, ({ tookMs, failed }) => tookMs.length + failed);
      return `${sum(rounds, ({ failed }) => failed)} of ${sent.toLocaleString('en-US')}`;
    },
  ],
  ...listPercentiles('repair', ({ repairsMs }) => repairsMs.map((ms) => ms ?? Infinity), formatRepair),
  ...listPercentiles('killed: failing', ({ killed }) => [endless(killed, killed.windowMs)], formatLong),
  ['processor of an agent', (rounds) => formatShares(listAgents(rounds, 'processorShare'))],
  ['idle processors', (rounds) => formatShares(rounds.map(({ idleShare }) => idleShare))],
];

/** Writes a table of what is on record into docs/benchmarks.md. Answers the file's path. */
export async function writeReport(kubernetes: string): Promise<string> {
  const versions = listVersions(kubernetes).filter(([name]) => name === 'Kubernetes');
  return await writeSection('beside', renderReport(record.read(), versions));
}

/** All that is on record. */
export function renderReport(
  rounds: readonly RoundRecord[],
  versions: readonly (readonly [string, string])[],
): string {
  return [
    describeRun(
      'scripts/bench beside',
      rounds.map(({ at }) => at),
      versions,
    ),
    describeLoad(rounds.map(({ load }) => load)),
    '',
    ...renderTable(rounds),
  ].join('\n');
}

function renderTable(rounds: readonly RoundRecord[]): string[] {
  const rows = setUpNames.flatMap((setUp) => {
    const some = rounds.filter((round) => round.setUp === setUp);
    return some.length === 0 ? [] : [[setUps[setUp].title, ...columns.map(([, render]) => render(some))]];
  });
  const titles = ['next to the VIP', ...columns.map(([title]) => title)];
  const line = titles.map((_, column) => (column === 0 ? '-' : '-:'));
  return [titles, line, ...rows].map((cells) => `| ${cells.join(' | ')} |`);
}

/** Two columns: of what all rounds have together. */
function listPercentiles(
  title: string,
  list: (round: RoundRecord) => readonly number[],
  format: (ms: number) => string,
): Column[] {
  return [50, 99].map((percent): Column => [
    percent === 50 ? `${title} p50` : 'p99',
    (rounds) => {
      const found = pickPercentile(rounds.flatMap(list), percent);
      return found === undefined ? '' : format(found);
    },
  ]);
}

function endless({ isOpen }: RoundRecord['killed'], ms: number): number {
  return isOpen ? Infinity : ms;
}

function listAgents(rounds: readonly RoundRecord[], name: keyof RoundRecord['agents'][number]): number[] {
  return rounds.flatMap(({ agents }) => agents.map((figures) => figures[name]));
}

function sum(rounds: readonly RoundRecord[], count: (round: RoundRecord) => number): number {
  return rounds.reduce((total, round) => total + count(round), 0);
}

function formatShares(shares: readonly number[]): string {
  return formatShare(median(shares));
}

function formatShare(share: number): string {
  return `${(share * 100).toFixed(1)} %`;
}

/** Of a few milliseconds. */
function formatShort(ms: number): string {
  return ms < 100 ? `${ms.toFixed(1)} ms` : formatLong(ms);
}

/** A repair that took longer was not waited for. */
function formatRepair(ms: number): string {
  return Number.isFinite(ms) ? formatLong(ms) : '> 20 s';
}

function formatLong(ms: number): string {
  if (!Number.isFinite(ms)) return '> 40 s';
  if (ms === 0) return '0';
  return ms < 1000 ? `${ms.toFixed(0)} ms` : `${(ms / 1000).toFixed(1)} s`;
}
