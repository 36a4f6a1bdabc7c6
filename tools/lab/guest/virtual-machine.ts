import { fileURLToPath } from 'node:url';
import { enclosureAddress, type GuestRequest } from './frames.ts';
import { type Machine, runShell, type RunOptions, type CommandResult } from '../machines/machine.ts';
import { join } from 'node:path';
import { mkdirSync } from 'node:fs';
import { Service, waitUntil } from '../machines/service.ts';
import { umlCommand } from './uml.ts';
import { chooseCpu } from './cpu.ts';
import type { ChildProcess } from 'node:child_process';

const server = fileURLToPath(new URL('server.ts', import.meta.url));
const client = fileURLToPath(new URL('client.ts', import.meta.url));

/** It boots in 3 s; three at a time on two busy cores need longer. */
const bootLimitMs = 180_000;

const memoryMb = 1536;

/**
 * The kernel shares the processors fairly among sessions (sched_autogroup_enabled), else among processes. A host in
 * namespaces has a session for each component, and a machine of all its components just one: it gets the share of ten.
 */
const raiseShare = `
  echo -10 >/proc/self/autogroup || true
  exec nice -n -10 "$@"
`;

/**
 * The enclosure keeps out of the guest's traffic: it has no address on the cable. What is offloaded to an interface
 * never reaches a raw socket whole.
 */
const setUp = `
  echo 1 > /proc/sys/net/ipv6/conf/eth0/disable_ipv6
  ethtool -K eth0 tx off gro off gso off tso off
  ip link set eth0 promisc on up
  ip link add mgmt0 type veth peer name mgmt1
  echo 1 > /proc/sys/net/ipv6/conf/mgmt1/disable_ipv6
  ethtool -K mgmt0 tx off gro off gso off tso off
  ethtool -K mgmt1 tx off gro off gso off tso off
  ip addr add ${enclosureAddress}/30 dev mgmt0
  ip link set mgmt0 up
  ip link set mgmt1 promisc on up
  cat /sys/class/net/mgmt0/address
`;

/**
 * A host with a kernel of its own, on this machine's files: user-mode Linux, inside of a machine that lends it the
 * cable on its eth0. Commands reach it over a link that is no part of the lab's network.
 */
export class VirtualMachine implements Machine {
  readonly name: string;
  readonly #enclosure: Machine;

  /** One that was booted in a machine before. */
  constructor(enclosure: Machine) {
    this.name = enclosure.name;
    this.#enclosure = enclosure;
  }

  /**
   * Boots one, until it takes commands; those of successive indexes share the processors evenly. Rejects with the end
   * of its console when it does not.
   */
  static async boot(
    enclosure: Machine,
    labFolder: string,
    { index, kernel }: { readonly index: number; readonly kernel?: string | undefined },
  ): Promise<VirtualMachine> {
    const folder = join(labFolder, enclosure.name, 'machine');
    mkdirSync(folder, { recursive: true });
    const link = (
      await runShell(enclosure, `exec 3>&1 >/dev/null\n${setUp}`.replace('cat /sys', 'cat >&3 /sys'))
    ).trim();
    const service = new Service(enclosure, 'machine', labFolder);
    const environment = { GUEST_HOSTNAME: enclosure.name, ENCLOSURE_LINK: link };
    const command = await umlCommand({
      ...{ kernel, memoryMb, program: server, folder, environment },
      ...{ interfaces: ['eth0', 'mgmt1'], cpu: chooseCpu(index) },
    });
    await service.start(['sh', '-c', raiseShare, 'sh', ...command]);
    const machine = new VirtualMachine(enclosure);
    await waitUntil(() => findObstacle(machine), {
      what: 'the machine takes commands',
      service,
      limitMs: bootLimitMs,
    });
    return machine;
  }

  run(command: readonly string[], { environment = {}, ...options }: RunOptions = {}): Promise<CommandResult> {
    return this.#enclosure.run(toClient({ command, environment }), options);
  }

  spawn(command: readonly string[], stdio: 'pipe' | 'inherit' = 'pipe'): ChildProcess {
    return this.#enclosure.spawn(toClient({ command, environment: {} }), stdio);
  }
}

async function findObstacle(machine: Machine): Promise<string | null> {
  const { exitCode, stderr } = await machine.run(['true']);
  return exitCode === 0 ? null : `exit status ${exitCode}: ${stderr}`;
}

function toClient(request: GuestRequest): string[] {
  return [process.execPath, client, JSON.stringify(request)];
}
