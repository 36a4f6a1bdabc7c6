import type { Lab } from '../../lab/control-plane/lab.ts';
import type { LabObjects } from './lab-objects.ts';
import { type SeatNode, startSeatNode, countConfigured, killGroup } from '../shared/seat-node.ts';
import { Storm } from './storm.ts';
import { masters } from '../../../test/support/network/layout.ts';
import { Service } from '../../lab/machines/service.ts';
import { toService, serviceCount, addressBeginning, addressNetwork } from './objects.ts';
import { waitUntil } from '../shared/wait.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { runShell } from '../../lab/machines/machine.ts';

/** The words for them. */
export const setUpNames = ['none', 'kube-proxy', 'balancers'] as const;

/** One of them. */
export type SetUpName = (typeof setUpNames)[number];

/** What is beside the API's VIP. */
export interface SetUp {
  readonly title: string;
  readonly hasStorm: boolean;
  readonly hasBalancers: boolean;
}

/** By their words. */
export const setUps: Readonly<Record<SetUpName, SetUp>> = {
  none: { title: 'no Services', hasStorm: false, hasBalancers: false },
  'kube-proxy': { title: 'the storm, kube-proxy alone', hasStorm: true, hasBalancers: false },
  balancers: { title: 'the storm, and balancers', hasStorm: true, hasBalancers: true },
};

/** What a start leaves behind is done by then. */
const restMs = 5000;

/** What is on a lab now beside the API's VIP. */
export class Ground {
  readonly lab: Lab;
  readonly #objects: LabObjects;
  readonly #nodes: readonly SeatNode[];
  #storm: Storm | null = null;
  #hasBalancers = false;

  constructor(lab: Lab, objects: LabObjects) {
    this.lab = lab;
    this.#objects = objects;
    this.#nodes = masters.map(({ name }) => ({
      balancer: new Service(lab.machine(name), 'balancer', lab.folder),
      keepalived: new Service(lab.machine(name), 'seats', lab.folder),
    }));
  }

  /** The storm, where there is one. */
  get storm(): Storm | null {
    return this.#storm;
  }

  /** Ends what runs in this process. */
  abandon(): void {
    this.#storm?.abandon();
  }

  /** Brings a set-up about. */
  async change({ hasStorm, hasBalancers }: SetUp): Promise<void> {
    if (this.#hasBalancers && !hasBalancers) await this.#stopBalancers();
    if (!hasStorm) {
      await this.#storm?.end();
      this.#storm = null;
    } else if (this.#storm === null) {
      this.#storm = await Storm.raise(this.#objects);
      await this.#waitForProxies();
    }
    if (!this.#hasBalancers && hasBalancers) await this.#startBalancers();
    this.#hasBalancers = hasBalancers;
  }

  /** kube-proxy's first write of a thousand Services is not what is measured. */
  async #waitForProxies(): Promise<void> {
    const last = `default/${toService(serviceCount - 1).name}`;
    await waitUntil('kube-proxy has all Services on every master', async () => {
      const rules = await Promise.all(
        masters.map(({ name }) =>
          this.lab.machine(name).run(['iptables-nft', '-t', 'nat', '-S', 'KUBE-SERVICES']),
        ),
      );
      return rules.every(({ stdout }) => stdout.includes(last));
    });
    await sleep(restMs);
  }

  async #startBalancers(): Promise<void> {
    const kubeconfig = this.#objects.writeKubeconfig();
    await Promise.all(this.#nodes.map((node) => startSeatNode(node, kubeconfig)));
    await waitUntil('one node holds all addresses of Services, and the others may', async () => {
      const known = await Promise.all(this.#nodes.map((node) => countConfigured(node, addressBeginning)));
      const held = await Promise.all(masters.map(({ name }) => this.#countHeld(name)));
      return (
        known.every((count) => count >= serviceCount) &&
        held.filter((count) => count >= serviceCount).length === 1
      );
    });
  }

  async #countHeld(master: string): Promise<number> {
    const { stdout } = await this.lab
      .machine(master)
      .run(['ip', '-o', '-4', 'address', 'show', 'dev', 'eth0', 'to', addressNetwork]);
    return stdout.split('\n').length - 1;
  }

  /** Ends them, and leaves nothing of them. */
  async #stopBalancers(): Promise<void> {
    for (const { balancer, keepalived } of this.#nodes) {
      await killGroup(keepalived);
      await killGroup(balancer);
      await runShell(
        balancer.machine,
        [
          `ip address flush dev eth0 to ${addressNetwork}`,
          // keepalived's anchors.
          'ip address flush dev lo to 169.254.0.0/24',
          'nft delete table ip vipnat-lb',
          'nft delete table ip6 vipnat-lb 2>/dev/null || true',
        ].join('\n'),
      );
    }
  }
}
