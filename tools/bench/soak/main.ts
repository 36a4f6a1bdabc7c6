/**
 * Whether agents stay as they are: a lab with a fault every ten seconds and a client, for an hour, and what each
 * agent's process holds meanwhile. Run by `scripts/bench soak`; what it measures and how is in docs/benchmarks.md.
 */
import { type LabOptions, defaultOptions } from '../../lab/settings/options.ts';
import { join } from 'node:path';
import { locateLab } from '../../lab/control-plane/state.ts';
import { runBench, say } from '../shared/run.ts';
import { parseSoakOptions, type SoakOptions } from './options.ts';
import { writeReport } from './report.ts';
import { readRecords, beginRecord, appendRecords } from './record.ts';
import { requireHost } from '../../lab/settings/requirements.ts';
import { removeLabOnSignal } from '../../lab/control-plane/interrupt.ts';
import { buildComponents } from '../../lab/build/build.ts';
import { recordHello } from '../../../test/support/network/hello.ts';
import { raiseLab } from '../../lab/control-plane/raise.ts';
import { prepareClient } from '../shared/client.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Lab } from '../../lab/control-plane/lab.ts';
import { Sampler } from './sampler.ts';
import { apiserverPort } from '../../../test/support/network/layout.ts';
import { drawSteps, runStep } from './faults.ts';
import { waitForApiservers, waitForHolder, waitForBalance } from '../../lab/control-plane/ready.ts';

const name = `soak-${process.pid}`;
const labOptions: LabOptions = {
  ...defaultOptions,
  name,
  // Agents that follow the API have more to keep open.
  agentArguments: ['--kubeconfig', join(locateLab(name), 'kube-proxy.kubeconfig')],
};

/** New connections of the client; a connection is good when the TLS server answers within the limit. */
const load = { perSecond: 50, limitMs: 2000 };

/** What starting costs is not what resting costs. */
const warmUpMs = 30_000;
const restMs = 60_000;
const faultIntervalMs = 10_000;

await runBench(async () => {
  const options = parseSoakOptions(process.argv.slice(2));
  if (!options.isReport) await soak(options);
  const { files, leaks } = await writeReport(readRecords());
  for (const file of files) say(`wrote ${file}`);
  for (const leak of leaks) say(`bench: ${leak}`);
  if (leaks.length > 0) process.exitCode = 1;
});

async function soak(options: SoakOptions): Promise<void> {
  requireHost(labOptions);
  removeLabOnSignal(name);
  await buildComponents(labOptions.kubernetes, say);
  const hello = await recordHello();
  say('bringing up the lab');
  const lab = await raiseLab(labOptions);
  try {
    await prepareClient(lab);
    await sleep(warmUpMs);
    beginRecord();
    await observe(lab, options, hello);
  } finally {
    await lab.down();
  }
}

/** Rest, faults, rest: samples of all of it. */
async function observe(lab: Lab, { minutes, seed }: SoakOptions, hello: string): Promise<void> {
  const sampler = new Sampler(lab);
  const client = lab.seat('client', 'connects');
  const sampling = sampler.run();
  await Promise.race([sampling, sleep(restMs)]);
  const durationMs = minutes * 60_000;
  const connecting = client.connectAtRate({
    ...{ host: lab.vip, port: apiserverPort, hello },
    ...{ ...load, durationMs: 2 * durationMs },
  });
  sampler.phase = 'faults';
  say(`a fault every ${faultIntervalMs / 1000} s for ${minutes} minutes, seed ${seed}`);
  await Promise.race([sampling, passFaults(lab, sampler, { durationMs, seed })]);
  client.settle();
  const { sent, failures } = await connecting;
  await waitForOrder(lab);
  sampler.phase = 'after';
  await Promise.race([sampling, sleep(restMs)]);
  sampler.stop();
  await sampling;
  const at = new Date().toISOString();
  appendRecords([{ kind: 'run', minutes, seed, at, sent, failed: failures.length }]);
}

/** One after the other, each at the next full interval. */
async function passFaults(
  lab: Lab,
  sampler: Sampler,
  { durationMs, seed }: { readonly durationMs: number; readonly seed: number },
): Promise<void> {
  const started = performance.now();
  for (const step of drawSteps(seed, Math.ceil(durationMs / faultIntervalMs))) {
    const elapsedMs = performance.now() - started;
    if (elapsedMs >= durationMs) return;
    appendRecords([{ kind: 'fault', atSeconds: sampler.seconds, ...step }]);
    say(`${(elapsedMs / 60_000).toFixed(1)} min: ${step.fault} (${step.master})`);
    await runStep(lab, step);
    const pastMs = (performance.now() - started) % faultIntervalMs;
    await sleep(faultIntervalMs - pastMs);
  }
}

/** @throws LabError when it does not become so. */
async function waitForOrder(lab: Lab): Promise<void> {
  await waitForApiservers(lab);
  await waitForHolder(lab);
  await waitForBalance(lab);
}
