import type { LabOptions } from '../settings/options.ts';
import { Sandbox } from '../machines/sandbox.ts';
import type { Machine } from '../machines/machine.ts';
import { type Certificates, locateCertificates } from '../certificates/certificates.ts';
import { Api } from './api.ts';
import { Seats } from './seats.ts';
import { locateLab, readState, writeState } from './state.ts';
import { hosts, vips, masters } from '../../../test/support/network/layout.ts';
import { findMachine, isVirtual } from './make.ts';
import { type Component, type Setting, componentCommand } from '../components/component.ts';
import { Service } from '../machines/service.ts';
import { defaultAgentArguments } from '../components/agent.ts';
import type { Seat } from '../../../test/support/network/seat.ts';
import { rmSync } from 'node:fs';

/** What a lab is made of, once its machines are there. */
export interface LabParts {
  readonly options: LabOptions;
  readonly sandbox: Sandbox;
  readonly machines: ReadonlyMap<string, Machine>;
  /** The process that holds each machine's namespaces. */
  readonly anchors: Readonly<Record<string, number>>;
}

/** A control plane of real components: masters m1 to m3, `worker`, `client`, and pods `pod-m1`, `pod-m2`, `pod-worker`. */
export class Lab {
  readonly options: LabOptions;
  /** Logs, pid files and configurations, a folder for each machine. */
  readonly folder: string;
  readonly certificates: Certificates;
  readonly api: Api;
  readonly #parts: LabParts;
  readonly #seats = new Seats((host) => this.machine(host));

  constructor(parts: LabParts) {
    this.options = parts.options;
    this.folder = locateLab(parts.options.name);
    this.certificates = locateCertificates(this.folder);
    this.#parts = parts;
    this.api = new Api(this.machine('client'), this.options.family, this.certificates);
  }

  /** The lab of a name, made by another process; null when it is not up. */
  static find(name: string): Lab | null {
    const state = readState(name);
    const sandbox = state === null ? null : Sandbox.find(state.sandbox);
    if (state === null || sandbox === null) return null;
    const { options, anchors } = state;
    const machines = new Map(
      hosts.map((host) => [host.name, findMachine(sandbox, options, host.name, anchors[host.name] ?? 0)]),
    );
    return new Lab({ options, sandbox, machines, anchors });
  }

  /** The VIP of the lab's family. */
  get vip(): string {
    return vips[this.options.family];
  }

  /** A host by its name. */
  machine(name: string): Machine {
    const machine = this.#parts.machines.get(name);
    if (machine === undefined) throw new Error(`the lab has no machine ${name}`);
    return machine;
  }

  /** A component on a host, running or not. */
  service(host: string, component: Component): Service {
    return new Service(this.machine(host), component, this.folder);
  }

  /** Starts a component on a host: as the lab's options say, or otherwise. */
  async start(host: string, component: Component, otherwise: Partial<Setting> = {}): Promise<Service> {
    const service = this.service(host, component);
    const { family, iptables, agentArguments = defaultAgentArguments(this.options) } = this.options;
    const mode = this.proxyModeOf(host);
    const setting = { family, iptables, mode, agentArguments, ...otherwise };
    const command = componentCommand(this, host, component, setting);
    await service.start(command.command, command.environment);
    return service;
  }

  /** Whether kube-proxy runs on every node. */
  get hasKubeProxy(): boolean {
    return this.options.proxyMode !== 'none';
  }

  /** kube-proxy's mode on a host: what is asked for, but iptables where the kernel has no IPVS. */
  proxyModeOf(host: string): LabOptions['proxyMode'] {
    const { proxyMode } = this.options;
    return proxyMode === 'ipvs' && !isVirtual(this.options, host) ? 'iptables' : proxyMode;
  }

  /** Whether a master takes part in holding the VIP: in ipvs mode those with IPVS. */
  hasVip(host: string): boolean {
    return this.proxyModeOf(host) === this.options.proxyMode;
  }

  /** The client at a host or pod, started when first asked for; one for each role, which do not wait for each other. */
  seat(place: string, role?: string): Seat {
    return this.#seats.get(place, role);
  }

  /** Ends the clients at a host and in its pod, or all of them; they are started anew when they are asked for again. */
  closeSeats(host?: string): void {
    this.#seats.close(host);
  }

  /** Pulls a host's cable out of the switch. */
  async cut(host: string): Promise<void> {
    await this.#switch(`ip link set ${host} down`);
  }

  /** Puts it back. */
  async join(host: string): Promise<void> {
    await this.#switch(`ip link set ${host} up`);
  }

  /** The masters that have the VIP on an interface: one, but while they cannot see each other. */
  async listHolders(): Promise<string[]> {
    const seen = await Promise.all(
      masters.map(async ({ name }) => {
        const { stdout } = await this.machine(name).run(['ip', '-o', 'addr', 'show', 'dev', 'eth0']);
        return stdout.includes(` ${this.vip}/`) ? [name] : [];
      }),
    );
    return seen.flat();
  }

  /** Makes it known to `Lab.find`. */
  announce(): void {
    const { options, sandbox, anchors } = this.#parts;
    writeState({ options, sandbox: sandbox.state, anchors });
  }

  /** Lets it live on after the calling process. */
  keep(): void {
    this.#parts.sandbox.keep();
  }

  /** Ends everything and removes the folder. */
  async down(): Promise<void> {
    await this.end();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Ends everything, but leaves the folder with the logs. */
  async end(): Promise<void> {
    await this.#parts.sandbox.remove();
  }

  async #switch(script: string): Promise<void> {
    await this.#parts.sandbox.shell(script);
  }
}
