import { rows, type Row } from './settings.ts';
import type { WindowRecord } from './record.ts';
import { workloadNames, type WorkloadName, workloads } from './workloads.ts';
import {
  type Point,
  summarize,
  compareLocations,
  measureProcessor,
  busyClients,
  measureMemory,
} from './figures.ts';
import { shareOfHaproxy } from './summary.ts';
import type { Spread } from '../shared/statistics.ts';

/** The ways beside straight access, which all others are held against. */
const others = rows.filter(({ path }) => path !== 'direct');

/** All tables of what is on record. */
export function renderTables(windows: readonly WindowRecord[]): string {
  return [
    ...workloadNames.flatMap((workload) => renderWorkload(windows, workload)),
    ...renderLocations(windows),
    ...renderProcessor(windows),
    ...renderMemory(windows),
  ].join('\n');
}

function renderWorkload(windows: readonly WindowRecord[], workload: WorkloadName): string[] {
  const { title, clients } = workloads[workload];
  const render = (some: readonly Row[], describe: (point: Point) => string) =>
    renderTable(
      ['path', ...clients.map((count) => `${formatCount(count)} client${count === 1 ? '' : 's'}`)],
      some.map((row) => [row.title, ...clients.map((count) => describe({ row, workload, clients: count }))]),
    );
  const isKnown = (row: Row) =>
    clients.some((count) => summarize(windows, { row, workload, clients: count }) !== null);
  const known = rows.filter(isKnown);
  if (known.length === 0) return [];
  return [
    ...[`### ${title}`, '', 'p50 – p99:', ''],
    ...render(known, (point) => describeTimes(windows, point)),
    ...['', 'p50 divided by p50 of straight access (least to most); answers per second:', ''],
    ...render(known, (point) => describeRate(windows, point)),
    '',
  ];
}

function describeTimes(windows: readonly WindowRecord[], point: Point): string {
  const seen = summarize(windows, point);
  return seen === null ? '' : `${formatTime(seen.p50)} – ${formatTime(seen.p99)}`;
}

function describeRate(windows: readonly WindowRecord[], point: Point): string {
  const seen = summarize(windows, point);
  if (seen === null) return '';
  const failed = seen.failed === 0 ? '' : `, ${seen.failed.toFixed(1)} ‰ failed`;
  const ratio = point.row.path === 'direct' ? '' : `${formatRatio(seen.ratio)}; `;
  return `${ratio}${formatCount(Math.round(seen.perSecond))}/s${failed}`;
}

function renderLocations(windows: readonly WindowRecord[]): string[] {
  const columns = workloadNames.filter((workload) => windows.some((window) => window.workload === workload));
  const heading = columns.flatMap((workload) => {
    const { short } = workloads[workload];
    return [`${short}: VIP holder`, 'other master'];
  });
  const cells = (row: Row) =>
    columns.flatMap((workload) => {
      const locations = compareLocations(windows, { row, workload, clients: 1 });
      return locations === null
        ? ['', '']
        : [locations.holder, locations.other].map(
            ({ addedMicroseconds, ratio }) => `${formatAdded(addedMicroseconds)}, ${ratio.toFixed(2)}`,
          );
    });
  return [
    ...['### By answering master', ''],
    ...[
      'One client: p50 beyond straight access to the same master, and p50 divided by p50 of straight access.',
      '',
    ],
    ...renderTable(
      ['path', ...heading],
      others.map((row) => [row.title, ...cells(row)]),
    ),
    '',
  ];
}

function renderProcessor(windows: readonly WindowRecord[]): string[] {
  const columns = (['new', 'kept', 'tls'] as const).filter((workload) =>
    windows.some((window) => window.workload === workload),
  );
  const costOf = (row: Row, workload: WorkloadName) =>
    measureProcessor(windows, { row, workload, clients: busyClients });
  const cells = (row: Row) =>
    columns.flatMap((workload) => {
      const cost = costOf(row, workload);
      if (cost === null) return ['', '', ''];
      if (row.path === 'direct') return [formatTime(cost.total), '', ''];
      return [
        formatTime(cost.total),
        formatSpread(cost.beyond),
        shareOfHaproxy(windows, row, workload).toFixed(2),
      ];
    });
  return [
    ...['### Processor time', ''],
    `${busyClients} clients: processor time of the whole machine for one request. "Beyond straight" is the difference from straight access in the same round (least to most). "Of HAProxy's" is this difference divided by HAProxy's.`,
    '',
    ...renderTable(
      [
        'path',
        ...columns.flatMap((workload) => [workloads[workload].short, 'beyond straight', "of HAProxy's"]),
      ],
      rows.map((row) => [row.title, ...cells(row)]),
    ),
    '',
  ];
}

function renderMemory(windows: readonly WindowRecord[]): string[] {
  // Fewer keep more than one each.
  const clients = workloads.kept.clients.filter((count) => count >= busyClients);
  const measured = [
    { path: 'vipnat', process: 'vipnat', title: "vipnat's agent" },
    { path: 'haproxy', process: 'haproxy', title: 'HAProxy' },
  ] as const;
  return [
    ...['### Memory', '', 'Memory of one process on the VIP holder, with connections open and in use.', ''],
    ...renderTable(
      ['process', ...clients.map((count) => `${formatCount(count)} connections`)],
      measured.map(({ path, process, title }) => {
        const row = rows.find((candidate) => candidate.path === path) ?? rows[0];
        return [
          title,
          ...clients.map((count) =>
            row === undefined
              ? ''
              : formatMegabytes(measureMemory(windows, { row, workload: 'kept', clients: count }, process)),
          ),
        ];
      }),
    ),
  ];
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

function formatAdded(microseconds: number): string {
  return microseconds < 0 ? `-${formatTime(-microseconds)}` : `+${formatTime(microseconds)}`;
}

function formatRatio(ratio: Spread | null): string {
  if (ratio === null) return '–';
  const { median, min, max } = ratio;
  return `${median.toFixed(2)} (${min.toFixed(2)} to ${max.toFixed(2)})`;
}

function formatSpread({ median, min, max }: Spread): string {
  return `${median.toFixed(0)} µs (${min.toFixed(0)} to ${max.toFixed(0)})`;
}

function formatMegabytes(megabytes: number): string {
  return Number.isNaN(megabytes) ? '-' : `${megabytes.toFixed(0)} MiB`;
}

function formatCount(count: number): string {
  return count.toLocaleString('en-US');
}
