import type { Habits } from './habits.ts';
import { ObjectApi, type Kind } from '../../../support/fakes/object-api.ts';
import { SimulatedNode } from './node.ts';
import { type Rewriter, rewrite } from './rewriter.ts';
import { type Decide, SimulatedController, listKinds } from './controller.ts';
import { Invariants } from './invariants.ts';
import { GateInvariants } from './gate-invariants.ts';
import { toGateTypes } from '../../../../lib/api/endpoints.ts';
import { otherGate } from './pod-facts.ts';
import { loadBalancerClass } from '../../../../lib/api/vipnat.ts';

const nodeNames = ['node-1', 'node-2', 'node-3'];

/** Who may lead: one at a time, each with fresh lists; or two at once, with lists of any age. */
export type Leaders = 'one' | 'two';

/** What a walk has of its own. */
export interface Surroundings {
  readonly habits: Habits;
  /** Whether there are pods with gates and weights. */
  readonly hasPods: boolean;
}

/** An API, nodes with balancers, and the controllers that believe they lead. */
export class Cluster {
  readonly api: ObjectApi;
  readonly nodes: readonly SimulatedNode[];
  /** Addresses that hosts without Kubernetes answer for. */
  readonly foreignHosts = new Set<string>();
  readonly complaints: string[] = [];
  /** The uids of VirtualIPs from which a person took the finalizer: an earlier version makes such, too. */
  readonly unkept = new Set<string>();
  /** Who takes back what controllers write; null for nobody. */
  rewriter: Rewriter | null = null;
  /** The API's version when the controller that writes now confirmed what it writes. */
  confirmedVersion = 0n;
  readonly counts = new Map<string, number>();
  readonly habits: Habits;
  readonly #decide: Decide;
  readonly #hasPods: boolean;
  controllers: SimulatedController[] = [];
  /** Of the next controller that leads: Services without a class are ours, too. */
  isDefaultClass = false;
  /** Milliseconds since 1970. */
  nowMs = 1_800_000_000_000;

  constructor(decide: Decide, leaders: Leaders, { habits, hasPods }: Surroundings) {
    this.#decide = decide;
    this.habits = habits;
    this.#hasPods = hasPods;
    const nowMs = () => this.nowMs;
    const invariants = new Invariants(this, leaders);
    const ofGates = new GateInvariants(this, leaders);
    this.api = new ObjectApi(nowMs, (written) => {
      this.complaints.push(...invariants.check(written), ...ofGates.check(written));
      rewrite(this, written);
    });
    for (const namespace of ['apps', 'infra'])
      this.api.create('Namespace', namespace, { metadata: { labels: { team: namespace } } });
    this.nodes = nodeNames.map((name) => {
      const canHold = (other: string) =>
        this.nodes.some((node) => node.name === other && node.isRunning && node.mode !== 'none');
      return new SimulatedNode(name, { api: this.api, nowMs, foreignHosts: this.foreignHosts, canHold });
    });
    for (const node of this.nodes) {
      this.register(node);
      node.report();
    }
    this.lead();
  }

  get kinds(): readonly Kind[] {
    return listKinds(this.#hasPods);
  }

  /** One more controller leads, with a fresh list of everything. */
  lead(): SimulatedController {
    const { isDefaultClass } = this;
    const controller = new SimulatedController(this.api, this.#decide, {
      nowMs: () => this.nowMs,
      complain: (complaint) => {
        this.complaints.push(complaint);
      },
      confirm: (version) => {
        this.confirmedVersion = BigInt(version);
      },
      settings: { isDefaultClass, gateTypes: toGateTypes([otherGate]) },
      hasPods: this.#hasPods,
    });
    this.controllers.push(controller);
    return controller;
  }

  /** A controller is killed, with whatever it was about to do. */
  kill(controller: SimulatedController): void {
    this.controllers = this.controllers.filter((each) => each !== controller);
  }

  /** A node's machine is switched off, and its Node deleted. */
  remove(node: SimulatedNode): void {
    node.powerOff();
    this.api.remove('Node', node.name);
  }

  /** A Node's kubelet begins. */
  register({ name }: SimulatedNode): void {
    const index = nodeNames.indexOf(name);
    const addresses = [{ type: 'InternalIP', address: `10.0.9.${index + 1}` }];
    const labels = { zone: `z${index % 2}` };
    this.api.create('Node', name, { metadata: { labels }, status: { addresses } });
  }

  /** Nodes that exist and controllers are well again. */
  mend(): void {
    for (const node of this.nodes.filter(({ name }) => this.api.list('Node').has(name))) {
      node.isConnected = true;
      node.mode = 'direct';
      if (!node.isRunning) node.start();
    }
    for (const controller of this.controllers) {
      controller.frozen = null;
      controller.isHeldUp = false;
    }
  }

  count(what: string): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + 1);
  }

  pass(ms: number): void {
    for (let left = ms; left > 0; left -= 1000) {
      this.nowMs += Math.min(left, 1000);
      for (const node of this.nodes) node.pass();
      for (const controller of this.controllers) controller.pass();
    }
  }
}

/** What is ours. */
export const ourClass = { type: 'LoadBalancer', loadBalancerClass } as const;

/** A sentence about what the API took; null for what it did not. */
export function done(status: number, what: string): string | null {
  return status < 300 ? what : null;
}
