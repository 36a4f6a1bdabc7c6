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
  const heading = [
    'agent',
    'figure',
    `first ${part}`,
    `last ${part}`,
    `least of the first ${part}`,
    `least of the last ${part}`,
    'slope per hour',
  ];
  const rows = findTrends(samples).map(formatTrend);
  const done = soakFaults.map((name) => [name, faults.filter(({ fault }) => fault === name).length]);
  return [
    `\`scripts/bench soak --minutes ${minutes} --seed ${seed}\`, ${at.slice(0, 10)}. ${describeMachine()}.`,
    '',
    `The run had ${faults.length} faults, and the three agents wrote ${countWrites(samples)} times. Of the client's ${sent} new connections, ${failed} failed.`,
    '',
    '![Memory, descriptors, child processes and wakeups of each agent over time](soak.svg)',
    '',
    ...[heading, heading.map((_, column) => (column < 2 ? '-' : '-:')), ...rows].map(
      (cells) => `| ${cells.join(' | ')} |`,
    ),
    '',
    leaks.length === 0 ? 'No figure indicates a leak.' : leaks.map((leak) => `- ${leak}`).join('\n'),
    '',
    '| fault | times |',
    '| - | -: |',
    ...done.map(([name, times]) => `| ${name} | ${times} |`),
  ].join('\n');
}

function formatTrend({ agent, key, first, last, firstLeast, lastLeast, slopePerHour }: Trend): string[] {
  const figure = figures.find((candidate) => candidate.key === key) ?? figures[0];
  const format = (value: number) =>
    `${value.toFixed(figure.digits)}${figure.unit === 'MiB' ? ' MiB' : figure.unit}`;
  const slope = `${slopePerHour < 0 ? '−' : '+'}${Math.abs(slopePerHour).toFixed(1)}`;
  return [agent, figure.title, format(first), format(last), format(firstLeast), format(lastLeast), slope];
}

/** Of all agents, from the first sample to the last. */
function countWrites(samples: readonly Sample[]): number {
  return listAgents(samples).reduce((sum, agent) => {
    const own = samples.filter((sample) => sample.agent === agent);
    return sum + (own.at(-1)?.writes ?? 0) - (own[0]?.writes ?? 0);
  }, 0);
}
