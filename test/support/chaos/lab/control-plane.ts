import { masters as hosts, apiserverPort } from '../../network/layout.ts';
import type { Lab } from '../../../../tools/lab/control-plane/lab.ts';
import { Firewall } from './firewall.ts';
import { type MasterState, soundMaster, listUsable, type Remedy, remedy, planRemedies } from './masters.ts';
import { Ejections } from '../world/ejections.ts';
import { cleanUpKubeProxy } from '../../../../tools/lab/control-plane/kube-proxy-cleanup.ts';
import { cutPower, restorePower } from '../../../../tools/lab/control-plane/faults.ts';
import { WaitedTooLong } from '../../jest/waiting.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { runShell } from '../../../../tools/lab/machines/machine.ts';
import { openBlackhole } from '../world/blackhole.ts';

export const masterNames: readonly string[] = hosts.map(({ name }) => name);

interface ProxyState {
  readonly mode: 'iptables' | 'nftables';
  readonly iptables: 'nft' | 'legacy';
}

/** Whether vipnat's rules, too, are where the administrators' are not. */
export function usesLegacy({ mode, iptables }: ProxyState): boolean {
  return mode === 'iptables' && iptables === 'legacy';
}

/** After SIGTERM an apiserver ends at once, or takes its time for what is open. */
const startLimitMs = 120_000;

/** A real control plane, what was done to it, and how it is mended. */
export class ControlPlane {
  readonly lab: Lab;
  readonly firewalls: ReadonlyMap<string, Firewall>;
  /** What ends with the burst, whatever becomes of it. */
  readonly chores = new Set<() => Promise<unknown>>();
  /** Masters whose agent has credentials for the API, see `kubeconfig`. */
  readonly credentialed = new Set<string>();
  readonly #kubeconfig: string;
  #masters: readonly MasterState[] = masterNames.map(soundMaster);
  readonly #proxies = new Map<string, ProxyState>();
  readonly #ejections = new Ejections();

  /** `kubeconfig` is what an agent with credentials is given. */
  constructor(lab: Lab, kubeconfig: string) {
    this.lab = lab;
    this.#kubeconfig = kubeconfig;
    this.firewalls = new Map(masterNames.map((name) => [name, new Firewall(lab.machine(name))]));
  }

  get masters(): readonly MasterState[] {
    return this.#masters;
  }

  master(name: string): MasterState {
    const found = this.#masters.find((one) => one.name === name);
    if (found === undefined) throw new Error(`there is no master ${name}`);
    return found;
  }

  firewall(name: string): Firewall {
    const found = this.firewalls.get(name);
    if (found === undefined) throw new Error(`there is no master ${name}`);
    return found;
  }

  note(name: string, change: Partial<MasterState>): void {
    const before = this.usable();
    this.#masters = this.#masters.map((one) => (one.name === name ? { ...one, ...change } : one));
    const after = this.usable();
    for (const master of before) if (!after.includes(master)) this.#ejections.note(master);
  }

  /** The masters whose apiservers new connections shall go to; see `listUsable`. */
  usable(from: string | null = null): string[] {
    return listUsable(this.#masters, from);
  }

  /** How often an apiserver fell within the last minute, at the most. */
  countEjections(): number {
    return Math.max(...masterNames.map((name) => this.#ejections.count(name, 60_000)));
  }

  proxy(name: string): ProxyState {
    return this.#proxies.get(name) ?? { mode: 'iptables', iptables: 'nft' };
  }

  /** The master that a step names: `holder` is whoever has the VIP now and is reached by others. */
  async resolve(name: string): Promise<string> {
    if (name !== 'holder') return name;
    const holders = await this.lab.listHolders();
    const reached = holders.find((holder) => this.master(holder).hasPower && this.master(holder).isLinked);
    return reached ?? holders[0] ?? 'm1';
  }

  /**
   * Starts kube-proxy on a master anew, set otherwise from now on where that is said. Whoever changes its backend takes away what it
   * leaves in the other one, as Kubernetes asks for, and takes along what stands before vipnat there.
   */
  async restartProxy(name: string, change: Partial<ProxyState> = {}): Promise<void> {
    const { iptables } = this.proxy(name);
    this.#proxies.set(name, { ...this.proxy(name), ...change });
    await this.lab.service(name, 'kube-proxy').stop('KILL');
    if (usesLegacy(this.proxy(name))) await this.firewall(name).clear();
    if (this.proxy(name).iptables !== iptables) await cleanUpKubeProxy(this.lab, name, iptables);
    await this.lab.start(name, 'kube-proxy', this.proxy(name));
  }

  /** Starts a master's agent, if it does not run. */
  async startAgent(name: string): Promise<void> {
    if (await this.lab.service(name, 'vipnat').isRunning()) return;
    const agentArguments = this.credentialed.has(name) ? ['--kubeconfig', this.#kubeconfig] : [];
    await this.lab.start(name, 'vipnat', { agentArguments });
  }

  async cutPower(name: string): Promise<void> {
    await cutPower(this.lab, name);
    this.note(name, { hasPower: false });
  }

  /** Brings a master back in part. */
  async mend({ master, kind }: Remedy): Promise<void> {
    await this.#mend(master, kind);
    this.#masters = this.#masters.map((one) => (one.name === master ? remedy(one, { master, kind }) : one));
  }

  /** Mends as little as lets anybody serve, and starts all agents and kube-proxies that ended. */
  async mendLeast(): Promise<void> {
    await Promise.all([...this.chores].map((end) => end()));
    this.chores.clear();
    for (const one of planRemedies(this.#masters)) await this.mend(one);
    await Promise.all(
      this.#masters
        .filter(({ hasPower }) => hasPower)
        .map(async ({ name }) => {
          await this.startAgent(name);
          if (await this.lab.service(name, 'kube-proxy').isRunning()) return;
          await this.lab.start(name, 'kube-proxy', this.proxy(name));
        }),
    );
  }

  /** Waits until every apiserver that shall be usable says so itself; one that did not find its etcd is started again, as the kubelet does. */
  async waitForUsable(): Promise<void> {
    const until = performance.now() + startLimitMs;
    const waiting = new Set(this.usable());
    while (waiting.size > 0) {
      for (const name of [...waiting]) {
        if (await this.#isReady(name)) waiting.delete(name);
        else if (!(await this.lab.service(name, 'kube-apiserver').isRunning())) {
          await this.lab.start(name, 'kube-apiserver');
        }
      }
      if (performance.now() > until) {
        const [name = ''] = waiting;
        const { logFile } = this.lab.service(name, 'kube-apiserver');
        throw new WaitedTooLong(`the apiserver on ${name} does not become ready: see ${logFile}`);
      }
      await sleep(waiting.size > 0 ? 200 : 0);
    }
  }

  async #isReady(name: string): Promise<boolean> {
    const url = `https://127.0.0.1:${apiserverPort}/readyz`;
    const { stdout } = await this.lab.machine(name).run(['curl', '-sk', '--max-time', '3', url]);
    return stdout === 'ok';
  }

  async #mend(name: string, kind: Remedy['kind']): Promise<void> {
    switch (kind) {
      case 'power':
        return this.#boot(name);
      case 'link':
        return this.lab.join(name);
      case 'blackhole':
        await runShell(this.lab.machine(name), openBlackhole);
        return;
      case 'keepalived':
        await this.lab.start(name, 'keepalived');
        return;
      case 'etcd':
        return this.#revive(name, 'etcd', this.master(name).etcd);
      case 'apiserver':
        return this.#revive(name, 'kube-apiserver', this.master(name).apiserver);
    }
  }

  /** What a boot leaves of the netfilter rules is what the firewall's files have. */
  async #boot(name: string): Promise<void> {
    await this.firewall(name).boot();
    await restorePower(this.lab, name);
    // It was started as in any lab; here it can be set otherwise.
    await this.restartProxy(name);
    if (!this.credentialed.has(name)) return;
    await this.lab.service(name, 'vipnat').stop('KILL');
    await this.startAgent(name);
  }

  async #revive(name: string, component: 'etcd' | 'kube-apiserver', state: string): Promise<void> {
    const service = this.lab.service(name, component);
    if (state === 'frozen') return service.signal('CONT');
    await service.stop('KILL');
    await this.lab.start(name, component);
  }
}
