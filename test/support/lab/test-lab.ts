import { type LabOptions, defaultOptions } from '../../../tools/lab/settings/options.ts';
import { type RaiseOptions, raiseLab } from '../../../tools/lab/control-plane/raise.ts';
import { Lab } from '../../../tools/lab/control-plane/lab.ts';
import { buildComponents, buildNodeComponents, buildKubeadm } from '../../../tools/lab/build/build.ts';
import type { NodeLab } from '../../../tools/lab/nodes/node-lab.ts';
import { raiseNodes } from '../../../tools/lab/nodes/raise.ts';
import { raiseBareNodes } from '../../../tools/lab/bare-nodes/raise.ts';
import { type Host, masters, worker } from '../network/layout.ts';
import { ApiCluster } from '../../../tools/lab/control-plane/api-cluster.ts';
import { buildKernel } from '../../../tools/lab/build/kernel.ts';
import { atEnd } from '../network/at-end.ts';
import { randomBytes } from 'node:crypto';
import { keepEvidence } from '../jest/evidence.ts';
import { locateLab, listLabs } from '../../../tools/lab/control-plane/state.ts';
import { readdirSync, existsSync, readFileSync, rmSync } from 'node:fs';
import { join, relative } from 'node:path';
import { networkCommand } from '../network/namespace-evidence.ts';

const anyPrefix = 'test-';
/** What labs of this run have in their names, of whichever part they are; scripts/test names the run. */
const run = (process.env['TEST_RUN'] ?? '')
  .toLowerCase()
  .replaceAll(/[^a-z0-9]/g, '')
  .slice(-8);
const testPrefix = run === '' ? anyPrefix : `${anyPrefix}${run}-`;

/** Of each component's log, in bytes: about twenty are kept together. */
const longestLogEnd = 50_000;

/** A lab for tests, named for this run; its components are built where nobody has yet. What earlier runs left is removed. */
export async function raiseTestLab(options: Partial<LabOptions>, how: RaiseOptions = {}): Promise<Lab> {
  const whole = nameOptions(options);
  await buildComponents(whole.kubernetes, tell);
  return await tellTime(() => raiseLab(whole, how));
}

/** The same on real nodes. */
export async function raiseTestNodes(options: Partial<LabOptions>, how: RaiseOptions = {}): Promise<NodeLab> {
  const whole = { ...nameOptions(options), hasNodes: true };
  await buildComponents(whole.kubernetes, tell);
  await buildNodeComponents(whole.kubernetes, tell);
  return await tellTime(() => raiseNodes(whole, { say: tell, ...how }));
}

/** Masters without a cluster, and kubeadm. */
export async function raiseTestBareNodes(): Promise<NodeLab> {
  const whole = nameOptions({});
  await buildComponents(whole.kubernetes, tell);
  await buildNodeComponents(whole.kubernetes, tell);
  await buildKubeadm(whole.kubernetes, tell);
  return await tellTime(() => raiseBareNodes(whole, { say: tell }));
}

/** One apiserver, and hosts on which nothing runs yet; those that are named are virtual machines. */
export async function raiseTestCluster(
  options: Partial<LabOptions>,
  hosts: readonly Host[],
  virtualHosts: readonly string[] = [],
): Promise<ApiCluster> {
  const whole = nameOptions(options);
  await buildComponents(whole.kubernetes, tell);
  if (virtualHosts.length > 0) await buildKernel(tell);
  const cluster = await ApiCluster.raise(whole, hosts, virtualHosts);
  keepNetworks(cluster, hosts);
  return cluster;
}

function nameOptions(options: Partial<LabOptions>): LabOptions {
  removeOldLogs();
  // The lab ends with this process, and this process has to hear that its run is gone.
  atEnd(() => undefined);
  const kubernetes = process.env['LAB_KUBERNETES'] ?? defaultOptions.kubernetes;
  const name = `${testPrefix}${process.pid}-${randomBytes(2).toString('hex')}`;
  keepEvidence(`logs of ${name}`, () => readLogs(locateLab(name)));
  return { ...defaultOptions, kubernetes, ...options, name };
}

/** The end of each component's log, one after another. Links of a node lead to nothing outside of it, and logs of pods go with these. */
function readLogs(folder: string): string {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile() && entry.name.endsWith('.log'));
  return files.map(({ parentPath, name }) => readEnd(folder, join(parentPath, name))).join('\n');
}

function readEnd(folder: string, file: string): string {
  const log = existsSync(file) ? readFileSync(file).subarray(-longestLogEnd).toString() : '';
  return `==> ${relative(folder, file)} <==\n${log}\n`;
}

/** The network of each host, as long as it is up. */
function keepNetworks(lab: Pick<Lab, 'machine'>, lived: readonly Host[]): void {
  for (const { name } of lived)
    keepEvidence(name, async () => (await lab.machine(name).run(networkCommand)).stdout);
}

async function tellTime<Raised extends Lab>(raise: () => Promise<Raised>): Promise<Raised> {
  const started = performance.now();
  const lab = await raise();
  keepNetworks(lab, [...masters, worker]);
  const seconds = ((performance.now() - started) / 1000).toFixed(0);
  tell(`lab ${lab.options.name} (${nameLab(lab)}) is up after ${seconds} s`);
  return lab;
}

/** The logs of a run are there for whoever looks at its failures, until its end; the next run needs the room. */
function removeOldLogs(): void {
  for (const name of listLabs()) {
    const isOfThisRun = run !== '' && name.startsWith(testPrefix);
    if (!name.startsWith(anyPrefix) || isOfThisRun || isRunning(name)) continue;
    rmSync(locateLab(name), { recursive: true, force: true });
  }
}

/** Labs are made by this process or by another one whose number is the last but one word of the name. */
function isRunning(name: string): boolean {
  return Lab.find(name) !== null || existsSync(`/proc/${name.split('-').at(-2) ?? ''}`);
}

/** For whoever watches the tests. */
export function tell(line: string): void {
  process.stderr.write(`${line}\n`);
}

export function nameLab({ options }: Lab): string {
  const { kubernetes, proxyMode, iptables, family, hasNodes = false, isBare = false } = options;
  const hasBackend = proxyMode === 'iptables' || proxyMode === 'ipvs';
  const mode = proxyMode === 'none' ? 'no kube-proxy' : `${proxyMode} mode`;
  return `Kubernetes ${kubernetes}${isBare ? ' for bare nodes' : hasNodes ? ' on real nodes' : ''}, ${mode}${hasBackend ? ` (iptables-${iptables})` : ''}, ${family}`;
}
