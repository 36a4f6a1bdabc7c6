import { readRounds, type RoundRecord } from './record.ts';
import { writeSection } from '../shared/page.ts';
import { faultNames, faults } from './faults.ts';
import { setUpNames, setUps } from './set-ups.ts';
import { describeRun, describeMachine } from '../shared/machine.ts';
import { listVersions } from '../shared/programs.ts';
import { pickPercentile } from '../shared/statistics.ts';
import { limits } from './round.ts';

const connectionTitles = [
  ...['fault', 'set-up', 'rounds', 'failing p50', 'failing p99', 'refused p99', 'failed p50', 'failed max'],
  ...['slow p50', 'slow p99'],
];
const watchTitles = ['fault', 'set-up', 'active p50', 'active p99', 'idle p50', 'idle p99'];

/**
 * Writes a table of what is on record into docs/benchmarks.md: of the quiet rounds, or of busy ones beside them.
 * Answers the file's path.
 */
export async function writeReport(kubernetes: string, isBusy: boolean): Promise<string> {
  const rounds = readRounds();
  if (isBusy) return await writeSection('busy', renderBusy(rounds));
  const quiet = rounds.filter((round) => round.isBusy !== true);
  return await writeSection('failover', renderReport(quiet, kubernetes));
}

function renderReport(rounds: readonly RoundRecord[], kubernetes: string): string {
  const dates = rounds.map(({ at }) => at);
  const groups = faultNames.flatMap((fault) =>
    setUpNames.flatMap((setUp) => {
      const some = rounds.filter((round) => round.fault === fault && round.setUp === setUp);
      return some.length === 0 ? [] : [{ names: [`\`${fault}\``, setUps[setUp].title], some }];
    }),
  );
  const withWatches = groups.filter(({ some }) => some.some(({ watchesMs }) => watchesMs.length > 0));
  return [
    describeRun('scripts/bench failover', dates, listVersions(kubernetes)),
    '',
    'New connections:',
    '',
    ...renderTable(
      connectionTitles,
      groups.map(({ names, some }) => [...names, ...summarizeConnections(some)]),
    ),
    '',
    'Watches:',
    '',
    ...renderTable(
      watchTitles,
      withWatches.map(({ names, some }) => [...names, ...summarizeWatches(some)]),
    ),
    '',
    'Faults:',
    '',
    ...faultNames.map((fault) => `- \`${fault}\`: ${faults[fault].meaning}`),
  ].join('\n');
}

function renderTable(titles: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const line = titles.map((_, column) => (column < 2 ? '-' : '-:'));
  return [titles, line, ...rows].map((cells) => `| ${cells.join(' | ')} |`);
}

/** What has busy rounds, beside its quiet ones. */
function renderBusy(rounds: readonly RoundRecord[]): string {
  const kinds = [false, true].map((isBusy) => rounds.filter((round) => (round.isBusy ?? false) === isBusy));
  const measures = ['failing p50', 'failing worst', 'failed worst', 'slow worst'];
  const titles = ['fault', 'set-up', 'rounds', ...measures.flatMap((name) => [`${name}, quiet`, 'busy'])];
  const rows = faultNames.flatMap((fault) =>
    setUpNames.flatMap((setUp) => {
      const [quiet = [], busy = []] = kinds.map((all) =>
        all.filter((round) => round.fault === fault && round.setUp === setUp),
      );
      if (busy.length === 0) return [];
      const [calm, pressed] = [summarizeShortly(quiet), summarizeShortly(busy)];
      const figures = calm.flatMap((figure, index) => [figure, pressed[index] ?? '']);
      return [[`\`${fault}\``, setUps[setUp].title, `${quiet.length} and ${busy.length}`, ...figures]];
    }),
  );
  const day = kinds[1]?.at(-1)?.at.slice(0, 10) ?? '';
  return [
    `\`scripts/bench failover --busy\`, ${day}. ${describeMachine()}.`,
    '',
    ...renderTable(titles, rows),
  ].join('\n');
}

function summarizeShortly(rounds: readonly RoundRecord[]): string[] {
  const windows = rounds.map(({ windowMs, isOpen }) => (isOpen ? Infinity : windowMs));
  const failed = rounds.map((round) => round.failed);
  const slowed = rounds.map(({ slowedMs, isOpen }) => (isOpen ? Infinity : slowedMs));
  return [
    ...[50, 100].map((percent) => formatTime(pickPercentile(windows, percent), limits.roundMs)),
    String(pickPercentile(failed, 100) ?? ''),
    formatTime(pickPercentile(slowed, 100), limits.roundMs),
  ];
}

function summarizeConnections(rounds: readonly RoundRecord[]): string[] {
  const windows = rounds.map(({ windowMs, isOpen }) => (isOpen ? Infinity : windowMs));
  const refused = rounds.map(({ refusedMs, isOpen }) => (isOpen ? Infinity : refusedMs));
  const slowed = rounds.map(({ slowedMs, isOpen }) => (isOpen ? Infinity : slowedMs));
  const failed = rounds.map((round) => round.failed);
  const format = (percent: number, of: number[]) => formatTime(pickPercentile(of, percent), limits.roundMs);
  return [
    String(rounds.length),
    ...[format(50, windows), format(99, windows), format(99, refused)],
    ...[String(pickPercentile(failed, 50)), String(pickPercentile(failed, 100))],
    ...[format(50, slowed), format(99, slowed)],
  ];
}

function summarizeWatches(rounds: readonly RoundRecord[]): string[] {
  const active = rounds.flatMap(({ watchesMs }) => watchesMs.map((known) => known ?? Infinity));
  const idle = rounds.flatMap(({ silentMs }) => silentMs.map((known) => known ?? Infinity));
  return [active, idle].flatMap((all) =>
    [50, 99].map((percent) => formatTime(pickPercentile(all, percent), limits.watchMs)),
  );
}

/** Infinity is what was not over in time. */
function formatTime(milliseconds: number | undefined, limitMs: number): string {
  if (milliseconds === undefined) return '';
  if (milliseconds === Infinity) return `> ${limitMs / 1000} s`;
  if (milliseconds === 0) return '0';
  return milliseconds < 1000 ? `${milliseconds} ms` : `${(milliseconds / 1000).toFixed(1)} s`;
}
