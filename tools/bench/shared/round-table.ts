import { describeRun } from './machine.ts';
import { describeLoad } from './load.ts';
import { pickPercentile } from './statistics.ts';

/** What each round on record has, whatever else it has. */
export interface TimedRound {
  /** When it ended, as in ISO 8601. */
  readonly at: string;
  /** The machine's load average then. */
  readonly load: number;
}

/** Columns of a table, and what they have of all rounds of a row. */
export interface Columns<Round> {
  readonly titles: readonly string[];
  readonly summarize: (rounds: readonly Round[]) => readonly string[];
}

/** What a table is made of. */
export interface RoundTable<Round> {
  /** What prints it. */
  readonly command: string;
  readonly versions: readonly (readonly [string, string])[];
  readonly rounds: readonly Round[];
  /** Titles of the columns that say what a row is of. */
  readonly heads: readonly string[];
  readonly rows: readonly { readonly heads: readonly string[]; readonly has: (round: Round) => boolean }[];
  readonly columns: readonly Columns<Round>[];
}

/** The lines of what was measured, when and where, and of a table. A row without rounds is left out. */
export function renderTable<Round extends TimedRound>(table: RoundTable<Round>): string[] {
  const { command, versions, rounds, heads, rows, columns } = table;
  const titles = [...heads, 'rounds', ...columns.flatMap((one) => one.titles)];
  const cells = rows.flatMap((row) => {
    const some = rounds.filter(row.has);
    const summary = columns.flatMap(({ summarize }) => summarize(some));
    return some.length === 0 ? [] : [[...row.heads, String(some.length), ...summary]];
  });
  const line = titles.map((_, column) => (column < heads.length ? '-' : '-:'));
  const dates = rounds.map(({ at }) => at);
  return [
    describeRun(command, dates, versions),
    describeLoad(rounds.map(({ load }) => load)),
    '',
    ...[titles, line, ...cells].map((words) => `| ${words.join(' | ')} |`),
  ];
}

/** All of them together. */
export function sum<Round>(rounds: readonly Round[], read: (round: Round) => number): string {
  return rounds.reduce((total, round) => total + read(round), 0).toLocaleString('en-US');
}

/** `failed`: connections that failed, of how many. */
export const failedOfSent: Columns<{ readonly failed: number; readonly sent: number }> = {
  titles: ['failed'],
  summarize: (rounds) => [`${sum(rounds, ({ failed }) => failed)} of ${sum(rounds, ({ sent }) => sent)}`],
};

/** How many of the long connections ended before their time. */
export function cutOfHeld(title: string): Columns<{ readonly cut: number; readonly held: number }> {
  return {
    titles: [title],
    summarize: (rounds) => [`${sum(rounds, ({ cut }) => cut)} of ${sum(rounds, ({ held }) => held)}`],
  };
}

/** Of 100 rounds, so many took no longer: half and 99, when left out. */
export function percentiles<Round>(
  title: string,
  readMs: (round: Round) => number,
  percents: readonly number[] = [50, 99],
): Columns<Round> {
  return {
    titles: percents.map((percent) => `${title} p${percent}`),
    summarize: (rounds) =>
      percents.map((percent) => formatMs(pickPercentile(rounds.map(readMs), percent) ?? 0)),
  };
}

/** `850 ms`, `1.2 s`. */
export function formatMs(ms: number): string {
  return ms < 1000 ? `${ms.toFixed(0)} ms` : `${(ms / 1000).toFixed(1)} s`;
}
