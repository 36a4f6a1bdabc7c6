import { type LabParts, Lab } from '../control-plane/lab.ts';
import { type Machine, runShell, type RunOptions, type CommandResult } from '../machines/machine.ts';
import { readState } from '../control-plane/state.ts';
import { Sandbox } from '../machines/sandbox.ts';
import { outsider } from '../../../test/support/network/layout.ts';
import { NamespaceMachine } from '../machines/namespace-machine.ts';
import { findNode, bootNode, nameGroups, waitForRemoval } from './node.ts';
import { LabError } from '../settings/error.ts';
import { hasUnits } from './units.ts';
import { locateDisk } from './disk.ts';
import { locateNodeComponents } from '../build/build.ts';
import { renderCable, renderHost } from '../../../test/support/network/wiring.ts';
import { nodes, type NodeHost } from './hosts.ts';
import { Service } from '../machines/service.ts';
import type { ChildProcess } from 'node:child_process';
import { join } from 'node:path';

/** What a lab of real nodes is made of; nodes are replaced as they boot. */
export interface NodeLabParts extends LabParts {
  readonly machines: Map<string, Machine>;
  readonly anchors: Record<string, number>;
}

/** A control plane on real nodes: masters m1 to m3, workers `worker` and `worker2`; `client` is outside. */
export class NodeLab extends Lab {
  readonly #parts: NodeLabParts;

  constructor(parts: NodeLabParts) {
    super(parts);
    this.#parts = parts;
  }

  /** The lab of a name, made by another process; null when it is not up, or has no real nodes. */
  static override find(name: string): NodeLab | null {
    const state = readState(name);
    const sandbox = state === null ? null : Sandbox.find(state.sandbox);
    if (state?.options.hasNodes !== true || sandbox === null) return null;
    const { options, anchors } = state;
    const machines = new Map<string, Machine>(
      Object.entries(anchors).map(([host, anchor]) => [
        host,
        host === outsider.name
          ? new NamespaceMachine(sandbox, host, anchor)
          : findNode(sandbox, host, anchor),
      ]),
    );
    return new NodeLab({ options, sandbox, machines, anchors: { ...anchors } });
  }

  /** Boots a node that is new or without power, and plugs in its cable: its disk is as it was, its memory and network are new. */
  async boot(name: string): Promise<void> {
    const host = findNodeHost(name);
    if (await this.isOn(name)) throw new LabError(`${name} is on already`);
    const { sandbox, machines, anchors, options } = this.#parts;
    const { family, kubernetes } = options;
    const bootsSystemd = hasUnits(locateDisk(this.folder, name));
    const kubelet = bootsSystemd ? null : locateNodeComponents(kubernetes).kubelet;
    const machine = await bootNode(host, {
      ...{ sandbox, groups: this.groups, labFolder: this.folder, family, kubelet },
    });
    machines.set(name, machine);
    anchors[name] = machine.anchor;
    await sandbox.shell(`ip link del ${name} 2>/dev/null || true\n${renderCable(name, machine.anchor)}`);
    await runShell(machine, renderHost(host, nodes));
    this.announce();
  }

  /**
   * A node loses its power: its cable is dead before any of its processes can say goodbye. Answers when that began, in milliseconds since the
   * epoch.
   */
  async powerOff(name: string): Promise<number> {
    findNodeHost(name);
    if (!(await this.isOn(name))) throw new LabError(`${name} is off already`);
    const { sandbox, anchors } = this.#parts;
    this.closeSeats(name);
    const begun = await sandbox.shell(`date +%s%3N\nip link set ${name} down\nkill -KILL ${anchors[name] ?? 0}
      while kill -0 ${anchors[name] ?? 0} 2>/dev/null; do sleep 0.01; done`);
    return Number(begun);
  }

  /** Whether a node has power. */
  async isOn(name: string): Promise<boolean> {
    const machine = this.#parts.machines.get(name);
    return machine !== undefined && (await machine.run(['true'])).exitCode === 0;
  }

  /** Whether one of the two programs runs that a node starts by itself. */
  async runs(name: string, program: 'containerd' | 'kubelet'): Promise<boolean> {
    return await new Service(this.machine(name), program, this.folder).isRunning();
  }

  /** Runs kubectl at the client, as the administrator who asks at the VIP. Never rejects for a failure, see `ask`. */
  async kubectl(words: readonly string[], options: RunOptions = {}): Promise<CommandResult> {
    return await this.machine(outsider.name).run([...this.#kubectlCommand(), ...words], options);
  }

  /** What kubectl prints; rejects with its complaint when it fails. */
  async ask(words: readonly string[], options: RunOptions = {}): Promise<string> {
    const { exitCode, stdout, stderr } = await this.kubectl(words, options);
    if (exitCode !== 0) throw new Error(`kubectl ${words.join(' ')}: exit status ${exitCode}: ${stderr}`);
    return stdout;
  }

  /** Has objects applied: one, or a manifest as text. */
  async apply(objects: object | string): Promise<void> {
    const input = typeof objects === 'string' ? objects : JSON.stringify(objects);
    await this.ask(['apply', '--filename', '-'], { input });
  }

  /** Starts kubectl with the caller's own standard input and output. */
  spawnKubectl(words: readonly string[]): ChildProcess {
    return this.machine(outsider.name).spawn([...this.#kubectlCommand(), ...words], 'inherit');
  }

  /** The name of its control groups. */
  get groups(): string {
    return nameGroups(this.options.name, this.#parts.sandbox);
  }

  /** Ends everything and removes the nodes' disks, but leaves the folder with the logs. */
  override async end(): Promise<void> {
    await super.end();
    await waitForRemoval(this.folder);
  }

  #kubectlCommand(): string[] {
    const { kubectl } = locateNodeComponents(this.options.kubernetes);
    // Where it remembers what the API has.
    const cache = `KUBECACHEDIR=${join(this.folder, 'kubectl')}`;
    return ['env', cache, kubectl, '--kubeconfig', join(this.folder, adminKubeconfig)];
  }
}

/** The administrator's, in the lab's folder. */
export const adminKubeconfig = 'admin.kubeconfig';

/** @throws LabError when it is none. */
function findNodeHost(name: string): NodeHost {
  const host = nodes.find((node) => node.name === name);
  if (host === undefined) {
    throw new LabError(`${name} is no node. There are: ${nodes.map((node) => node.name).join(', ')}`);
  }
  return host;
}
