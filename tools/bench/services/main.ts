/**
 * How long a change of an endpoint takes to the kernel, and what it costs, with vipnat's balancer and with kube-proxy. Run by
 * `scripts/bench services`; what it measures and how is in docs/benchmarks.md.
 */
import { type LabOptions, defaultOptions } from '../../lab/settings/options.ts';
import { runBench, say } from '../shared/run.ts';
import { parseServicesOptions, type ServicesOptions } from './options.ts';
import { requireHost } from '../../lab/settings/requirements.ts';
import { removeLabOnSignal } from '../../lab/control-plane/interrupt.ts';
import { buildComponents } from '../../lab/build/build.ts';
import { buildProgram } from '../shared/go-program.ts';
import { record } from './record.ts';
import { writeReport } from './report.ts';
import { listNodes, SmallCluster } from '../shared/small-cluster.ts';
import { setUpNames, type SetUpName, setUps } from './set-ups.ts';
import { ServiceWriter } from '../shared/service-writer.ts';
import { endpointPort, toService } from './objects.ts';
import { measureRound, type Outcome } from './round.ts';
import { shuffle } from '../shared/shuffle.ts';
import { pickPercentile } from '../shared/statistics.ts';

const labOptions: LabOptions = { ...defaultOptions, name: `services-${process.pid}` };

await runBench(() => measure(parseServicesOptions(process.argv.slice(2))));

async function measure(options: ServicesOptions): Promise<void> {
  requireHost(labOptions);
  removeLabOnSignal(labOptions.name);
  await buildComponents(labOptions.kubernetes, say);
  await buildProgram('services');
  const { setUps: chosen, counts, isFresh } = options;
  if (isFresh) record.remove((one) => chosen.includes(one.setUp) && counts.includes(one.services));
  if (counts.some((services) => listMissing(options, services).length > 0)) await measureAll(options);
  else say('all rounds are on record, --fresh measures them again');
  say(`wrote ${await writeReport(labOptions.kubernetes)}`);
}

async function measureAll(options: ServicesOptions): Promise<void> {
  const nodes = listNodes(setUpNames);
  const cluster = await SmallCluster.raise(labOptions, nodes);
  try {
    const writer = new ServiceWriter(cluster, endpointPort);
    await writer.writeBasics(nodes, '10.78.0.1', []);
    for (const services of options.counts) {
      const missing = listMissing(options, services);
      if (missing.length === 0) continue;
      say(`writing ${services} Services`);
      await writer.growTo(Array.from({ length: services }, (_, number) => toService(number)));
      for (const setUp of missing) await measureOne(cluster, setUp, writer);
    }
  } finally {
    await cluster.down();
  }
}

async function measureOne(cluster: SmallCluster, setUp: SetUpName, writer: ServiceWriter): Promise<void> {
  const outcome = await measureRound(cluster, setUp, writer.services);
  const services = writer.services.length;
  record.append({ setUp, services, at: new Date().toISOString(), ...outcome });
  say(`${services} Services, ${setUps[setUp].title}: ${describe(outcome)}`);
}

/** One after the other in rounds, each round in random order. */
function listMissing({ setUps: chosen, rounds }: ServicesOptions, services: number): SetUpName[] {
  const known = record.read().filter((round) => round.services === services);
  return Array.from({ length: rounds }, (_, round) =>
    shuffle(chosen.filter((setUp) => known.filter((one) => one.setUp === setUp).length <= round)),
  ).flat();
}

function describe(outcome: Outcome): string {
  const { startMs, latenciesMs, unseen, megabytes, processorShare, toolsShare, load } = outcome;
  const [p50, p99] = [50, 99].map((percent) => pickPercentile(latenciesMs, percent)?.toFixed(0) ?? '?');
  return [
    `event to kernel ${p50} ms, p99 ${p99} ms${unseen === 0 ? '' : `, ${unseen} never`}`,
    `start ${startMs === null ? 'never' : `${startMs.toFixed(0)} ms`}`,
    `${megabytes.toFixed(0)} MiB, ${(processorShare * 100).toFixed(1)} % of a processor, ${(toolsShare * 100).toFixed(1)} % in tools (load ${load.toFixed(1)})`,
  ].join('; ');
}
