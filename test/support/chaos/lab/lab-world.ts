import type { World } from '../engine/world.ts';
import { ControlPlane, masterNames } from './control-plane.ts';
import { Knowledge } from './knowledge.ts';
import { ProxyJudge, judgeHolders, judgeAgents, judgeFirewalls } from './judge.ts';
import type { Lab } from '../../../../tools/lab/control-plane/lab.ts';
import { apiserverPort } from '../../network/layout.ts';
import { join } from 'node:path';
import { writeKubeconfig } from '../../../../tools/lab/certificates/kubeconfig.ts';
import type { Step } from '../engine/walk.ts';
import { performStep } from './perform.ts';
import { restoreAll, judgeServices, judgeCleanup } from './end.ts';
import { judgeSeats } from './seats.ts';
import { setTimeout as sleep } from 'node:timers/promises';

/** What vipnat promises, on a machine whose two cores run all of this: see engine/run-walk.ts. */
const promisedMs = 10_000;

/** On a busy machine one judgement takes as long as all of the promise. */
const fewestJudgements = 4;

/** Bad answers are pardoned for so long after etcd was gone (agent/health/judge.ts). */
const ejectionGraceMs = 15_000;

/** An apiserver that fell four times within a minute has to be good for so long. */
const flappingMs = 30_000;
const maxEjections = 3;
const pollMs = 300;

/** What can make /readyz fail everywhere for a while. */
const etcdFaults = ['etcd killed', 'etcd frozen', 'etcd back', 'power cut', 'link cut', 'host back'];

/** Chaos on a real control plane. */
export class LabWorld implements World {
  readonly #plane: ControlPlane;
  readonly #knowledge: Knowledge;
  readonly #proxies: ProxyJudge;
  readonly #patience: number;
  #breaches: string[] = [];
  /** Since when something of vipnat's is not right in quiet, which kube-proxy's late news can begin anew. */
  #wrong: { since: number; judgements: number } | null = null;
  #hasEtcdFault = false;
  #hadEtcdFault = false;

  private constructor(plane: ControlPlane, patience: number) {
    this.#plane = plane;
    this.#patience = patience;
    this.#knowledge = new Knowledge(plane);
    this.#proxies = new ProxyJudge(plane);
  }

  /** In a lab that has just come up; `patience` is how much slower than promised anything may be. */
  static async open(lab: Lab, patience: number): Promise<LabWorld> {
    const server = `https://${lab.vip}:${apiserverPort}`;
    const { authority, admin } = lab.certificates;
    const kubeconfig = join(lab.folder, 'vipnat.kubeconfig');
    writeKubeconfig(kubeconfig, { server, authority, user: 'admin', pair: admin });
    const plane = new ControlPlane(lab, kubeconfig);
    for (const firewall of plane.firewalls.values()) await firewall.reload();
    for (const firewall of plane.firewalls.values()) await firewall.restore();
    await Promise.all(masterNames.map((name) => plane.restartProxy(name)));
    return new LabWorld(plane, patience);
  }

  async perform(step: Step): Promise<void> {
    this.#hasEtcdFault ||= etcdFaults.includes(step.fault);
    await performStep(this.#plane, step);
  }

  async calm(): Promise<void> {
    this.#hadEtcdFault = this.#hasEtcdFault;
    this.#hasEtcdFault = false;
    await this.#plane.mendLeast();
    await this.#openHolder();
    await this.#plane.waitForUsable();
    this.#wrong = { since: performance.now(), judgements: 0 };
  }

  async judge(): Promise<readonly string[]> {
    const ours = await this.#judgeOurs();
    if (this.#isLate(ours.length > 0)) this.#breaches.push(...ours);
    this.#breaches.push(...this.#proxies.takeBlocked());
    return ours.length > 0 ? ours : this.#proxies.judge();
  }

  takeBreaches(): readonly string[] {
    const taken = this.#breaches;
    this.#breaches = [];
    return taken;
  }

  async finish(): Promise<readonly string[]> {
    await restoreAll(this.#plane, this.#knowledge);
    const complaints = [
      ...(await this.#judgeSeatsInTime()),
      ...(await judgeServices(this.#plane)),
      ...this.#proxies.takeBlocked(),
    ];
    return complaints.length > 0 ? complaints : judgeCleanup(this.#plane);
  }

  describe(): string {
    const { lab, masters } = this.#plane;
    const states = masters.map((one) => JSON.stringify({ ...one, proxy: this.#plane.proxy(one.name) }));
    const logs = masterNames.map((name) => {
      const agent = lab.service(name, 'vipnat');
      return `the end of ${agent.logFile}:\n${agent.readTail()}`;
    });
    return [...states, ...logs].join('\n');
  }

  async close(): Promise<void> {
    await this.#plane.lab.end();
  }

  async #judgeOurs(): Promise<string[]> {
    const found = await Promise.all([
      judgeHolders(this.#plane),
      judgeSeats(this.#plane, this.#knowledge),
      judgeAgents(this.#plane),
      judgeFirewalls(this.#plane),
    ]);
    return found.flat();
  }

  /** Whoever came back a moment ago has to prove itself before it is used. */
  async #judgeSeatsInTime(): Promise<string[]> {
    const since = performance.now();
    for (;;) {
      const complaints = await judgeSeats(this.#plane, this.#knowledge);
      if (complaints.length === 0 || performance.now() - since > this.#limitMs()) return complaints;
      await sleep(pollMs);
    }
  }

  /** The holder itself cannot see that a firewall of its own drops what others send to it. */
  async #openHolder(): Promise<void> {
    for (const { name, isBlackholed } of this.#plane.masters) {
      const holders = await this.#plane.lab.listHolders();
      if (isBlackholed && holders.includes(name)) await this.#plane.mend({ master: name, kind: 'blackhole' });
    }
  }

  /** Whether something has been wrong for too long: by the clock, and by what a busy machine lets be judged meanwhile. */
  #isLate(isWrong: boolean): boolean {
    const { since, judgements } = this.#wrong ?? { since: performance.now(), judgements: 0 };
    this.#wrong = isWrong ? { since, judgements: judgements + 1 } : null;
    return isWrong && judgements + 1 >= fewestJudgements && performance.now() - since > this.#limitMs();
  }

  #limitMs(): number {
    const more = this.#hadEtcdFault ? ejectionGraceMs : 0;
    const most = this.#plane.countEjections() > maxEjections ? flappingMs : 0;
    return promisedMs * this.#patience + more + most;
  }
}
