import { rows } from './settings.ts';
import type { WindowRecord } from './record.ts';
import { workloads } from './workloads.ts';
import { type Point, summarize, measureProcessor, busyClients, measureMemory } from './figures.ts';

/** So many clients, and what they do: those whose p50 a row has, then those whose p99 it has. */
const ratioLoads: readonly Load[] = [
  { workload: 'new', clients: 1 },
  { workload: 'new', clients: 100 },
  { workload: 'new', clients: 10_000 },
  { workload: 'kept', clients: 100 },
  { workload: 'apiserver-new', clients: 1 },
  { workload: 'apiserver-kept', clients: 1 },
];
const slowLoads: readonly Load[] = [
  { workload: 'new', clients: 100 },
  { workload: 'kept', clients: 1000 },
];

type Load = Omit<Point, 'row'>;

/** The table of what is on record, and memory. */
export function renderTables(windows: readonly WindowRecord[]): string {
  return [...renderTimes(windows), ...renderMemory(windows)].join('\n');
}

function renderTimes(windows: readonly WindowRecord[]): string[] {
  const name = ({ workload, clients }: Load) => `${workloads[workload].short}, ${formatCount(clients)}`;
  const heading = [...ratioLoads.map(name), ...slowLoads.map((load) => `p99 of ${name(load)}`)];
  return [
    `p50 divided by p50 of straight access, by the number of clients; straight access has p50 itself. Processor time is the machine's for a new connection of ${busyClients} clients:`,
    '',
    ...renderTable(
      ['path', ...heading, 'processor'],
      rows.map((row) => [
        row.title,
        ...ratioLoads.map((load) => describeRatio(windows, { ...load, row })),
        ...slowLoads.map((load) => formatTime(summarize(windows, { ...load, row })?.p99 ?? NaN)),
        formatTime(measureProcessor(windows, { row, workload: 'new', clients: busyClients })?.total ?? NaN),
      ]),
    ),
    '',
  ];
}

function describeRatio(windows: readonly WindowRecord[], point: Point): string {
  const seen = summarize(windows, point);
  if (seen === null) return '';
  if (point.row.path === 'direct') return formatTime(seen.p50);
  const failed = seen.failed === 0 ? '' : `, ${seen.failed.toFixed(1)} ‰ failed`;
  return `${seen.ratio === null ? '–' : seen.ratio.median.toFixed(2)}${failed}`;
}

/** Of the process of each way that has one, with few connections and with many. */
function renderMemory(windows: readonly WindowRecord[]): string[] {
  const measured = [
    { path: 'vipnat', process: 'vipnat', title: "vipnat's agent" },
    { path: 'haproxy', process: 'haproxy', title: 'HAProxy' },
  ] as const;
  const texts = measured.flatMap(({ path, process, title }) => {
    const row = rows.find((candidate) => candidate.path === path);
    if (row === undefined) return [];
    const [few = '', many = ''] = [busyClients, 10_000].map((clients) =>
      formatMegabytes(measureMemory(windows, { row, workload: 'kept', clients }, process)),
    );
    return [`${title} ${few} and ${many}`];
  });
  return [`Memory with ${busyClients} and 10,000 open connections: ${texts.join('; ')}.`];
}

function renderTable(heading: readonly string[], cells: readonly (readonly string[])[]): string[] {
  const line = heading.map((_, column) => (column === 0 ? '-' : '-:'));
  return [heading, line, ...cells].map((words) => `| ${words.join(' | ')} |`);
}

/** Of microseconds, in the unit in which it has at most three digits before the point. */
export function formatTime(microseconds: number): string {
  if (Number.isNaN(microseconds)) return '-';
  const [value, unit] =
    microseconds < 999.5
      ? [microseconds, 'µs']
      : microseconds < 999_500
        ? [microseconds / 1000, 'ms']
        : [microseconds / 1_000_000, 's'];
  return `${value.toFixed(unit === 'µs' || value >= 99.5 ? 0 : 1)} ${unit}`;
}

function formatMegabytes(megabytes: number): string {
  return Number.isNaN(megabytes) ? '-' : `${megabytes.toFixed(0)} MiB`;
}

function formatCount(count: number): string {
  return count.toLocaleString('en-US');
}
