import { fileURLToPath } from 'node:url';
import type { SoakRecord, Sample, FaultRecord, RunRecord } from './record.ts';
import { LabError } from '../../lab/settings/error.ts';
import { findLeaks, figures, listAgents, toPoints, findTrends, type Trend } from './summary.ts';
import { writeFileSync } from 'node:fs';
import { writeSection } from '../shared/page.ts';
import { renderGraph } from './graph.ts';
import { soakFaults } from './faults.ts';
import { describeMachine } from '../shared/machine.ts';

const graphFile = fileURLToPath(new URL('../../../docs/soak.svg', import.meta.url));

/**
 * Writes the graph and the table of a whole run; answers their files, and what indicates a leak.
 * @throws LabError when the run did not come to its end.
 */
export async function writeReport(
  records: readonly SoakRecord[],
): Promise<{ files: string[]; leaks: readonly string[] }> {
  const run = records.find((record) => record.kind === 'run');
  if (run === undefined)
    throw new LabError('no whole run is on record. Example: scripts/bench soak --minutes 60');
  const samples = records.filter((record) => record.kind === 'sample');
  const faults = records.filter((record) => record.kind === 'fault');
  const leaks = findLeaks(samples, run.minutes);
  writeFileSync(graphFile, drawGraph(samples));
  const page = await writeSection('soak', renderSection(run, { samples, faults, leaks }));
  return { files: [graphFile, page], leaks };
}

function drawGraph(samples: readonly Sample[]): string {
  const panels = figures.map(({ key, title, unit }) => ({
    title: unit === '' ? title : `${title}, ${unit === '/s' ? 'a second' : unit}`,
    lines: listAgents(samples).map((name) => ({
      name,
      points: toPoints(samples, name, key).map(({ atSeconds, value }) => [atSeconds / 60, value] as const),
    })),
  }));
  const marked = samples.filter(({ phase }) => phase === 'faults').map(({ atSeconds }) => atSeconds / 60);
  return renderGraph(panels, [marked[0] ?? 0, marked.at(-1) ?? 0]);
}

interface Evidence {
  readonly samples: readonly Sample[];
  readonly faults: readonly FaultRecord[];
  readonly leaks: readonly string[];
}

function renderSection({ minutes, seed, at, sent, failed }: RunRecord, result: Evidence): string {
  const { samples, faults, leaks } = result;
  const part = minutes % 6 === 0 ? `${minutes / 6} minutes` : `${minutes * 10} seconds`;
  const heading = ['figure of an agent', `first ${part}`, `last ${part}`, 'slope per hour'];
  const trends = findTrends(samples);
  const rows = figures.map(({ key }) => formatTrends(trends.filter((trend) => trend.key === key)));
  return [
    `\`scripts/bench soak --minutes ${minutes} --seed ${seed}\`, ${at.slice(0, 10)}. ${describeMachine()}.`,
    '',
    `The run had ${faults.length} faults of ${soakFaults.length} kinds, and the three agents wrote ${countWrites(samples)} times. Of the client's ${sent} new connections, ${failed} failed.`,
    '',
    '![Memory, descriptors, child processes and wakeups of each agent over time](soak.svg)',
    '',
    ...[heading, heading.map((_, column) => (column < 1 ? '-' : '-:')), ...rows].map(
      (cells) => `| ${cells.join(' | ')} |`,
    ),
    '',
    leaks.length === 0 ? 'No figure indicates a leak.' : leaks.map((leak) => `- ${leak}`).join('\n'),
  ].join('\n');
}

/** One figure of all agents, each from the least to the most. */
function formatTrends(trends: readonly Trend[]): string[] {
  const figure = figures.find(({ key }) => key === trends[0]?.key) ?? figures[0];
  const unit = figure.unit === 'MiB' ? ' MiB' : figure.unit;
  const spread = (values: readonly number[], digits: number) =>
    [...new Set([Math.min(...values), Math.max(...values)].map((one) => one.toFixed(digits)))].join(' to ');
  const [first, last] = (['first', 'last'] as const).map(
    (name) =>
      `${spread(
        trends.map((trend) => trend[name]),
        figure.digits,
      )}${unit}`,
  );
  return [
    figure.title,
    first ?? '',
    last ?? '',
    spread(
      trends.map(({ slopePerHour }) => slopePerHour),
      1,
    ),
  ];
}

/** Of all agents, from the first sample to the last. */
function countWrites(samples: readonly Sample[]): number {
  return listAgents(samples).reduce((sum, agent) => {
    const own = samples.filter((sample) => sample.agent === agent);
    return sum + (own.at(-1)?.writes ?? 0) - (own[0]?.writes ?? 0);
  }, 0);
}
