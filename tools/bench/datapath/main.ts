/**
 * What a way to an apiserver costs: straight, through vipnat, HAProxy and kube-proxy's ClusterIP. Run by
 * `scripts/bench datapath`; what it measures and how is in docs/benchmarks.md.
 */
import { type SettingName, settings, settingNames } from './settings.ts';
import { type WorkloadName, workloadNames, workloads, isInRound } from './workloads.ts';
import { type LabOptions, defaultOptions } from '../../lab/settings/options.ts';
import { runBench, say } from '../shared/run.ts';
import { parseDatapathOptions, type DatapathOptions } from './options.ts';
import { requireHost } from '../../lab/settings/requirements.ts';
import { requireHaproxy } from '../shared/programs.ts';
import { removeLabOnSignal } from '../../lab/control-plane/interrupt.ts';
import { buildComponents } from '../../lab/build/build.ts';
import { buildProgram } from '../shared/go-program.ts';
import { record, type WindowRecord } from './record.ts';
import { writeReport } from './report.ts';
import { raiseLab } from '../../lab/control-plane/raise.ts';
import { Bed } from './bed.ts';
import { shuffle } from '../shared/shuffle.ts';
import { quietCores, describeUnrest } from './rest.ts';
import { LabError } from '../../lab/settings/error.ts';

/** What is measured within a few seconds, so that it can be compared: all ways of a setting, in random order. */
interface Block {
  readonly setting: SettingName;
  readonly workload: WorkloadName;
  readonly clients: number;
  readonly round: number;
}

const labOptions: LabOptions = { ...defaultOptions, name: `datapath-${process.pid}` };

await runBench(() => measure(parseDatapathOptions(process.argv.slice(2))));

async function measure(options: DatapathOptions): Promise<void> {
  requireHost(labOptions);
  requireHaproxy();
  removeLabOnSignal(labOptions.name);
  await buildComponents(labOptions.kubernetes, say);
  await buildProgram('datapath');
  if (options.isFresh) record.remove(({ workload }) => options.workloads.includes(workload));
  const missing = listMissing(options);
  for (const proxyMode of ['iptables', 'nftables'] as const) {
    const blocks = missing.filter(({ setting }) => settings[setting].proxyMode === proxyMode);
    if (blocks.length > 0) await measureCluster(proxyMode, blocks);
  }
  say(`wrote ${(await writeReport(labOptions.kubernetes)).join(' and ')}`);
}

function listMissing({ rounds, workloads: chosen }: DatapathOptions): Block[] {
  const known = new Set(record.read().map(nameBlock));
  const all = settingNames.flatMap((setting) =>
    workloadNames
      .filter((workload) => chosen.includes(workload))
      .flatMap((workload) =>
        workloads[workload].clients.flatMap((clients) =>
          Array.from({ length: rounds }, (_, index) => ({ setting, workload, clients, round: index + 1 })),
        ),
      ),
  );
  return all.filter((block) => isInRound(block.clients, block.round) && !known.has(nameBlock(block)));
}

function nameBlock({ setting, workload, clients, round }: Block): string {
  return `${setting} ${workload} ${clients} ${round}`;
}

async function measureCluster(proxyMode: 'iptables' | 'nftables', blocks: readonly Block[]): Promise<void> {
  say(`${proxyMode}: bringing up a lab for ${blocks.length} blocks`);
  const lab = await raiseLab({ ...labOptions, proxyMode });
  try {
    const bed = new Bed(lab);
    const names = settingNames.filter((name) => settings[name].proxyMode === proxyMode);
    await bed.prepare(names.some((name) => settings[name].paths.includes('haproxy')));
    await measureSettings(bed, names, blocks.filter(isReal));
    await bed.replaceApiservers();
    await measureSettings(
      bed,
      names,
      blocks.filter((block) => !isReal(block)),
    );
  } finally {
    await lab.down();
  }
}

function isReal({ workload }: Block): boolean {
  return workloads[workload].isReal;
}

async function measureSettings(
  bed: Bed,
  names: readonly SettingName[],
  blocks: readonly Block[],
): Promise<void> {
  for (const name of names) {
    const own = shuffle(blocks.filter(({ setting }) => setting === name));
    if (own.length === 0) continue;
    await bed.arrange(settings[name]);
    const rest = await bed.measureRest();
    if (rest > quietCores) say(`${name}: ${describeUnrest(rest)}`);
    for (const block of own.toSorted((a, b) => a.round - b.round)) await measureBlock(bed, block, rest);
  }
}

/** On record whole or not at all: figures without their straight access say nothing. */
async function measureBlock(bed: Bed, block: Block, rest: number): Promise<void> {
  const { setting, workload, clients } = block;
  const windows: WindowRecord[] = [];
  for (const path of shuffle(settings[setting].paths)) {
    const window = await bed.measure(path, workloads[workload], clients);
    windows.push({ ...block, path, holder: bed.holder, rest, at: new Date().toISOString(), ...window });
  }
  if (!(await bed.isSteady())) throw new LabError(`the VIP left ${bed.holder} under load`);
  windows.forEach((window) => {
    record.append(window);
  });
  say(`${nameBlock(block)}: ${windows.map(describe).join(', ')}`);
}

function describe({ path, requests, seconds, all, errors }: WindowRecord): string {
  const failed = Object.entries(errors).map(([error, count]) => `, ${count} ${error}`);
  return `${path} ${all.p50.toFixed(0)} µs, ${(requests / seconds).toFixed(0)}/s${failed.join('')}`;
}
