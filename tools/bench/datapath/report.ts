import { fileURLToPath } from 'node:url';
import { record, type WindowRecord } from './record.ts';
import { writeFileSync } from 'node:fs';
import { renderChart, type Series } from './chart.ts';
import { workloads, workloadNames } from './workloads.ts';
import { writeSection } from '../shared/page.ts';
import { listVersions } from '../shared/programs.ts';
import { describeMachine } from '../shared/machine.ts';
import { renderUnrest } from './rest.ts';
import { renderSummary } from './summary.ts';
import { renderTables } from './tables.ts';
import { rows } from './settings.ts';
import { summarize, measureProcessor, busyClients } from './figures.ts';

const picture = fileURLToPath(new URL('../../../docs/datapath.svg', import.meta.url));

/** Writes the tables and the chart of all that is on record into docs/; answers the files' paths. */
export async function writeReport(kubernetes: string): Promise<string[]> {
  const windows = record.read();
  if (windows.length === 0) return [];
  writeFileSync(picture, renderChart({ clients: workloads.new.clients, series: listSeries(windows) }));
  return [await writeSection('datapath', renderReport(windows, kubernetes)), picture];
}

function renderReport(windows: readonly WindowRecord[], kubernetes: string): string {
  const versions = listVersions(kubernetes).map(([name, version]) => `${name} ${version}`);
  const dates = windows.map(({ at }) => at.slice(0, 10)).sort();
  const period = [...new Set([dates[0], dates.at(-1)])].join(' to ');
  return [
    `\`scripts/bench datapath\`, ${period}, ${describeRounds(windows)}. ${describeMachine()}. ${versions.join(', ')}.${renderUnrest(windows)}`,
    '',
    '![New connections: p50 and processor time compared with straight access](datapath.svg)',
    '',
    ...renderSummary(windows),
    '',
    renderTables(windows),
  ].join('\n');
}

/** `5 rounds`, or where some clients were measured more often `5 to 20 rounds`. */
function describeRounds(windows: readonly WindowRecord[]): string {
  const counts = workloadNames
    .map((workload) => windows.filter((window) => window.workload === workload).map(({ round }) => round))
    .filter((rounds) => rounds.length > 0)
    .map((rounds) => Math.max(...rounds));
  const [least, most] = [Math.min(...counts), Math.max(...counts)];
  return least === most ? `${most} rounds` : `${least} to ${most} rounds`;
}

/** The ways of the iptables clusters: those of nftables have straight access of their own. */
const colors: Readonly<Record<string, Series['color']>> = {
  'service-chain vipnat': 'vipnat',
  'direct vipnat': 'vipnat-direct',
  'service-chain haproxy': 'haproxy',
  'service-chain kube-proxy': 'kube-proxy',
};

function listSeries(windows: readonly WindowRecord[]): Series[] {
  return rows.flatMap((row) => {
    const color = colors[`${row.setting} ${row.path}`];
    if (color === undefined) return [];
    const point = { row, workload: 'new' } as const;
    const summaries = workloads.new.clients.map((clients) => summarize(windows, { ...point, clients }));
    return [
      {
        ...{ title: row.title, color },
        ratios: summaries.map((seen) => seen?.ratio ?? null),
        processor: measureProcessor(windows, { ...point, clients: busyClients })?.beyond ?? null,
      },
    ];
  });
}
