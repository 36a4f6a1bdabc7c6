import type { LabOptions } from '../settings/options.ts';
import type { Sandbox } from '../machines/sandbox.ts';
import { type Machine, runShell } from '../machines/machine.ts';
import { NamespaceMachine } from '../machines/namespace-machine.ts';
import { VirtualMachine } from '../guest/virtual-machine.ts';

/** This kernel may have no IPVS: the nodes that need it have one of their own. m3 shows the other kind of neighbour. */
const virtualHosts: readonly string[] = ['m1', 'm2', 'worker'];

/** Whether a host is a virtual machine in a lab of such options. */
export function isVirtual(options: LabOptions, host: string): boolean {
  return listVirtualHosts(options).hosts.includes(host);
}

/** A host that was made before, by the process that holds its namespaces. */
export function findMachine(sandbox: Sandbox, options: LabOptions, name: string, anchor: number): Machine {
  const machine = new NamespaceMachine(sandbox, name, anchor);
  return isVirtual(options, name) ? new VirtualMachine(machine) : machine;
}

/** Which hosts have a kernel of their own; that of Debian's package when none is named. */
export interface VirtualHosts {
  readonly hosts: readonly string[];
  readonly kernel?: string;
}

/** Those of a lab of such options. */
export function listVirtualHosts({ proxyMode }: LabOptions): VirtualHosts {
  return { hosts: proxyMode === 'ipvs' ? virtualHosts : [] };
}

/**
 * Boots a kernel in a host's namespaces, where it takes over the end of the cable; other hosts stay as they are, but
 * that their packets get whole checksums where a virtual machine may be the receiver.
 */
export async function powerOn(
  machine: Machine,
  labFolder: string,
  { hosts, kernel }: VirtualHosts,
): Promise<Machine> {
  if (hosts.length > 0) await runShell(machine, 'ethtool -K eth0 tx off >/dev/null');
  const index = hosts.indexOf(machine.name);
  return index < 0 ? machine : VirtualMachine.boot(machine, labFolder, { index, kernel });
}
