import { masters, worker, hosts, podHosts } from '../../../test/support/network/layout.ts';
import type { LabOptions } from '../settings/options.ts';
import { Lab } from './lab.ts';
import { requireHost } from '../settings/requirements.ts';
import { Sandbox } from '../machines/sandbox.ts';
import { LabError } from '../settings/error.ts';
import { locateLab } from './state.ts';
import { rmSync, mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { NamespaceMachine } from '../machines/namespace-machine.ts';
import { createCertificates } from '../certificates/certificates.ts';
import { renderSwitch, renderHost, renderPodCable, renderPod } from '../../../test/support/network/wiring.ts';
import { listVirtualHosts, powerOn } from './make.ts';
import { type Machine, runShell } from '../machines/machine.ts';
import { writeProxyKubeconfig } from '../components/kube-proxy.ts';
import { waitForApiservers, waitForHolder, waitForServices, waitForBalance } from './ready.ts';

const nodes = [...masters, worker];
const masterNames = masters.map(({ name }) => name);

/** How a lab is brought up. */
export interface RaiseOptions {
  /** Hears of each step. */
  readonly say?: (line: string) => void;
  /** Whether vipnat runs on the masters; it does by default. */
  readonly hasAgents?: boolean;
}

/**
 * Brings a lab up: every component runs, every apiserver is an endpoint to kube-proxy where there is one, and every
 * agent balances. The components have to be built. It goes away with the calling process, unless it is told to `keep`.
 * @throws LabError when it cannot be: nothing runs any more then, and its logs stay in its folder until the next one
 * of its name.
 */
export async function raiseLab(
  options: LabOptions,
  { say = () => undefined, hasAgents = true }: RaiseOptions = {},
): Promise<Lab> {
  requireHost(options);
  prepareFolder(
    options,
    hosts.map(({ name }) => name),
  );
  const sandbox = await Sandbox.create();
  try {
    const lab = await setUpMachines(sandbox, options);
    say('machines are up');
    await startControlPlane(lab);
    say('apiservers answer');
    await startNodes(lab, hasAgents);
    return lab;
  } catch (error) {
    await sandbox.remove();
    throw error;
  }
}

/** @throws LabError when a lab of this name is up. */
export function requireDown({ name }: LabOptions): void {
  if (Lab.find(name) === null) return;
  throw new LabError(`the lab ${name} is up already. Take it down, or give this one another --name`);
}

/**
 * A folder for a new lab, with one for each host.
 * @throws LabError when a lab of this name is up.
 */
export function prepareFolder(options: LabOptions, hostNames: readonly string[]): void {
  requireDown(options);
  const folder = locateLab(options.name);
  rmSync(folder, { recursive: true, force: true });
  for (const host of hostNames) mkdirSync(join(folder, host), { recursive: true });
  for (const backend of ['nft', 'legacy']) linkTools(join(folder, `${backend}-tools`), backend);
}

/** A folder in which `iptables` and its kin are those of one backend. */
function linkTools(folder: string, backend: string): void {
  mkdirSync(folder);
  for (const tool of ['iptables', 'ip6tables']) {
    for (const end of ['', '-save', '-restore']) {
      symlinkSync(`/usr/sbin/${tool}-${backend}${end}`, join(folder, `${tool}${end}`));
    }
  }
}

async function setUpMachines(sandbox: Sandbox, options: LabOptions): Promise<Lab> {
  const [made] = await Promise.all([
    Promise.all(hosts.map(({ name }) => NamespaceMachine.create(sandbox, name))),
    createCertificates(locateLab(options.name)),
  ]);
  const anchors = Object.fromEntries(made.map(({ name, anchor }) => [name, anchor]));
  await sandbox.shell(renderSwitch((host) => anchors[host] ?? 0));
  const virtual = listVirtualHosts(options);
  const machines = new Map<string, Machine>(
    await Promise.all(
      made.map(
        async (machine) => [machine.name, await powerOn(machine, locateLab(options.name), virtual)] as const,
      ),
    ),
  );
  const lab = new Lab({ options, sandbox, machines, anchors });
  lab.announce();
  await Promise.all(hosts.map((host) => runShell(lab.machine(host.name), renderHost(host))));
  await Promise.all(
    podHosts.map((host) =>
      runShell(
        lab.machine(host.name),
        `ip netns add pod
         ${renderPodCable(host, 'pod')}
         ip netns exec pod sh -ec '${renderPod(host)}'`,
      ),
    ),
  );
  return lab;
}

/** Whoever is up first becomes MASTER and stays it, whatever its priority (nopreempt). */
const waitForKeepalived = `for try in $(seq 100); do
  [ ! -e /run/keepalived-vrrp.pid ] || break
  sleep 0.1
done`;

async function startControlPlane(lab: Lab): Promise<void> {
  writeProxyKubeconfig(lab.folder, lab.options.family, lab.certificates);
  const [holder, ...backups] = masterNames.filter((name) => lab.hasVip(name));
  await Promise.all(masterNames.map((name) => lab.start(name, 'etcd')));
  if (holder !== undefined) {
    await lab.start(holder, 'keepalived');
    await runShell(lab.machine(holder), waitForKeepalived);
  }
  await Promise.all(backups.map((name) => lab.start(name, 'keepalived')));
  // As kubeadm does: two that find etcd empty at once can fail each other (1.33: "another caller has already
  // initialized the resource"). m3 is never a virtual machine, so it is the quickest.
  const [first = '', ...others] = masterNames.toReversed();
  await lab.start(first, 'kube-apiserver');
  await waitForApiservers(lab, [first]);
  await Promise.all(others.map((name) => lab.start(name, 'kube-apiserver')));
  await waitForApiservers(lab);
  await waitForHolder(lab);
}

async function startNodes(lab: Lab, hasAgents: boolean): Promise<void> {
  const { family } = lab.options;
  // kube-proxy waits 30 s for its own node's object when that is missing.
  await Promise.all(
    nodes.map(({ name, addresses }) =>
      lab.api.create('/api/v1/nodes', {
        apiVersion: 'v1',
        kind: 'Node',
        metadata: { name },
        status: { addresses: [{ type: 'InternalIP', address: addresses[family] }] },
      }),
    ),
  );
  if (lab.hasKubeProxy) {
    await Promise.all(nodes.map(({ name }) => lab.start(name, 'kube-proxy')));
    await waitForServices(lab);
  }
  if (!hasAgents) return;
  // Until kube-proxy has written, an agent on a virtual machine tries the nft backend, which its kernel refuses.
  await Promise.all(masterNames.map((name) => lab.start(name, 'vipnat')));
  await waitForBalance(lab);
}
