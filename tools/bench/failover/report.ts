import { readRounds, type RoundRecord } from './record.ts';
import { writeSection } from '../shared/page.ts';
import { faultNames, faults } from './faults.ts';
import { setUpNames, setUps } from './set-ups.ts';
import { describeRun, describeMachine } from '../shared/machine.ts';
import { listVersions } from '../shared/programs.ts';
import { pickPercentile } from '../shared/statistics.ts';
import { limits } from './round.ts';

const titles = ['fault', 'set-up', 'rounds', 'failing p50', 'failing p99', 'slow p99', 'idle watches p99'];

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
  return [
    describeRun('scripts/bench failover', dates, listVersions(kubernetes)),
    '',
    ...renderTable(
      titles,
      groups.map(({ names, some }) => [...names, ...summarize(some)]),
    ),
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
  const rows = faultNames.flatMap((fault) =>
    setUpNames.flatMap((setUp) => {
      const [quiet = [], busy = []] = kinds.map((all) =>
        all.filter((round) => round.fault === fault && round.setUp === setUp),
      );
      if (busy.length === 0) return [];
      const [calm, pressed] = [findWorst(quiet), findWorst(busy)];
      return [
        `- \`${fault}\`, ${setUps[setUp].title}: ${calm} in ${quiet.length} quiet rounds, ${pressed} in ${busy.length} busy ones`,
      ];
    }),
  );
  const day = kinds[1]?.at(-1)?.at.slice(0, 10) ?? '';
  return [`\`scripts/bench failover --busy\`, ${day}. ${describeMachine()}.`, '', ...rows].join('\n');
}

function findWorst(rounds: readonly RoundRecord[]): string {
  return formatTime(pickPercentile(listTimes(rounds, 'slowedMs'), 100), limits.roundMs);
}

function listTimes(rounds: readonly RoundRecord[], name: 'windowMs' | 'slowedMs'): number[] {
  return rounds.map(({ [name]: ms, isOpen }) => (isOpen ? Infinity : ms));
}

function summarize(rounds: readonly RoundRecord[]): string[] {
  const idle = rounds.flatMap(({ silentMs }) => silentMs.map((known) => known ?? Infinity));
  const failing = listTimes(rounds, 'windowMs');
  return [
    String(rounds.length),
    ...[50, 99].map((percent) => formatTime(pickPercentile(failing, percent), limits.roundMs)),
    formatTime(pickPercentile(listTimes(rounds, 'slowedMs'), 99), limits.roundMs),
    formatTime(pickPercentile(idle, 99), limits.watchMs),
  ];
}

/** Infinity is what was not over in time. */
function formatTime(milliseconds: number | undefined, limitMs: number): string {
  if (milliseconds === undefined) return '';
  if (milliseconds === Infinity) return `> ${limitMs / 1000} s`;
  if (milliseconds === 0) return '0';
  return milliseconds < 1000 ? `${milliseconds} ms` : `${(milliseconds / 1000).toFixed(1)} s`;
}
