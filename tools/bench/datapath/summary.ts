import type { WindowRecord } from './record.ts';
import { workloadNames, workloads, type WorkloadName } from './workloads.ts';
import { rows, type Row } from './settings.ts';
import { measureProcessor, busyClients, measureRatios, measureOwnPart } from './figures.ts';
import { boundMedian, median } from '../shared/statistics.ts';

/** What vipnat aims at: p50 of a client of kube-apiserver by straight access times this, and this part of HAProxy's processor time (docs/benchmarks.md). */
const aims = { p50: 1.05, processor: 0.6 };

/** The figures on record that have an aim; nothing of what was not measured. */
export function renderSummary(windows: readonly WindowRecord[]): string[] {
  const measured = workloadNames.filter((workload) => windows.some((window) => window.workload === workload));
  const vipnat = rows.filter(
    ({ path, setting }) => path === 'vipnat' && windows.some((window) => window.setting === setting),
  );
  return [
    ...renderAim(
      windows,
      vipnat,
      measured.filter((workload) => workloads[workload].isReal),
    ),
    ...renderProcessor(windows, vipnat),
  ];
}

/** A way's processor time beyond straight access as a part of HAProxy's; NaN when either is not on record. */
function shareOfHaproxy(windows: readonly WindowRecord[], row: Row, workload: WorkloadName): number {
  const measure = (of: Row) =>
    measureProcessor(windows, { row: of, workload, clients: busyClients })?.beyond.median ?? NaN;
  const haproxy = rows.find(({ path }) => path === 'haproxy');
  return haproxy === undefined ? NaN : measure(row) / measure(haproxy);
}

/** All of vipnat's ways are the same work for the kernel, one DNAT: together their rounds say more than those of each. */
function renderAim(
  windows: readonly WindowRecord[],
  vipnat: readonly Row[],
  measured: readonly WorkloadName[],
): string[] {
  if (measured.length === 0) return [];
  const texts = measured.map((workload) => {
    const all = vipnat.flatMap((row) => measureRatios(windows, { row, workload, clients: 1 }));
    const bounds = boundMedian(all);
    const between =
      bounds === null ? '' : ` (between ${bounds.low.toFixed(2)} and ${bounds.high.toFixed(2)} with 95 %)`;
    return `${workloads[workload].short}: ${median(all).toFixed(2)}${between}`;
  });
  return [
    `p50 of one client of kube-apiserver through vipnat, divided by p50 of straight access (aim: at most ${aims.p50}). The rounds of all balancing modes are together:`,
    '',
    ...texts.map((text) => `- ${text}`),
    '',
  ];
}

function renderProcessor(windows: readonly WindowRecord[], vipnat: readonly Row[]): string[] {
  const haproxy = rows.find(({ path }) => path === 'haproxy');
  if (
    haproxy === undefined ||
    !windows.some(({ path, workload }) => path === 'haproxy' && workload === 'new')
  )
    return [];
  const own = measureOwnPart(windows, { row: haproxy, workload: 'new', clients: busyClients }, 'haproxy');
  return [
    `Processor time of a new connection beyond straight access, divided by HAProxy's (aim: at most ${aims.processor}):`,
    '',
    ...vipnat.map((row) => `- ${row.title}: ${shareOfHaproxy(windows, row, 'new').toFixed(2)}`),
    '',
    `HAProxy's own process takes ${own.toFixed(0)} µs for one connection. The kernel takes the rest.`,
  ];
}
