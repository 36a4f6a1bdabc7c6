import { listVersions } from '../shared/programs.ts';
import { writeSection } from '../shared/page.ts';
import { record, type RoundRecord } from './record.ts';
import { describeRun } from '../shared/machine.ts';
import { endpointCount } from './objects.ts';
import { describeLoad } from '../shared/load.ts';
import { setUpNames, setUps } from './set-ups.ts';
import { pickPercentile, median } from '../shared/statistics.ts';

const titles = [
  ...['Services', 'set-up', 'changes', 'event → kernel p50', 'p99', 'worst'],
  ...['start', 'memory', 'most memory', 'processor'],
];

/** Writes a table of what is on record into docs/benchmarks.md. Answers the file's path. */
export async function writeReport(kubernetes: string): Promise<string> {
  const versions = listVersions(kubernetes).filter(([name]) => name === 'Kubernetes');
  return await writeSection('services', renderReport(record.read(), versions));
}

/** All that is on record. */
export function renderReport(
  rounds: readonly RoundRecord[],
  versions: readonly (readonly [string, string])[],
): string {
  const groups = groupRounds(rounds);
  const line = titles.map((_, column) => (column === 1 ? '-' : '-:'));
  const rows = groups.map((group) => renderRow(group));
  return [
    describeRun(
      'scripts/bench services',
      rounds.map(({ at }) => at),
      versions,
    ),
    `Each Service has ${endpointCount} endpoints. ${describeLoad(rounds.map(({ load }) => load))}`,
    '',
    ...[titles, line, ...rows].map((cells) => `| ${cells.join(' | ')} |`),
  ].join('\n');
}

interface Group {
  readonly setUp: RoundRecord['setUp'];
  readonly services: number;
  readonly some: readonly RoundRecord[];
}

function groupRounds(rounds: readonly RoundRecord[]): Group[] {
  const counts = [...new Set(rounds.map(({ services }) => services))].sort((a, b) => a - b);
  return counts.flatMap((services) =>
    setUpNames.flatMap((setUp) => {
      const some = rounds.filter((round) => round.setUp === setUp && round.services === services);
      return some.length === 0 ? [] : [{ setUp, services, some }];
    }),
  );
}

function renderRow(group: Group): string[] {
  const { setUp, services, some } = group;
  const { p50, p99, worst, startMs, megabytes, share } = summarize(group);
  const unseen = some.reduce((sum, round) => sum + round.unseen, 0);
  const changes = some.reduce((sum, round) => sum + round.latenciesMs.length + round.unseen, 0);
  return [
    ...[services.toLocaleString('en-US'), setUps[setUp].title],
    `${changes}${unseen === 0 ? '' : ` (${unseen} never)`}`,
    ...[p50, p99, worst, startMs].map(formatMs),
    ...[megabytes, Math.max(...some.map((round) => round.peakMegabytes))].map(
      (mib) => `${mib.toFixed(0)} MiB`,
    ),
    `${(share * 100).toFixed(1)} %`,
  ];
}

/** Of all changes of all rounds; and of rounds the median. A start that never ended is endless. */
function summarize({ some }: Group) {
  const latencies = some.flatMap(({ latenciesMs }) => latenciesMs);
  const pick = (percent: number) => pickPercentile(latencies, percent) ?? Number.NaN;
  return {
    ...{ p50: pick(50), p99: pick(99), worst: pick(100) },
    startMs: median(some.map(({ startMs }) => startMs ?? Infinity)),
    megabytes: median(some.map(({ megabytes }) => megabytes)),
    share: median(some.map(({ processorShare }) => processorShare)),
  };
}

function formatMs(ms: number): string {
  if (!Number.isFinite(ms)) return 'never';
  return ms < 1000 ? `${ms.toFixed(0)} ms` : `${(ms / 1000).toFixed(1)} s`;
}
