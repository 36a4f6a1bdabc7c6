import type { FakeKernel } from '../../../support/fakes/kernel.ts';
import type { Clock } from '../../../../lib/clock.ts';
import type { HealthView } from '../../../../agent/health/usable.ts';
import type { ReconcileState, Assessment } from '../../../../agent/decide/decision.ts';
import { type LoopPorts, Loop } from '../../../../agent/sync.ts';
import type { Watch, Kernel } from '../../../../lib/kernel/port.ts';
import { ordinaryConfig } from '../../../support/agent/running-agent.ts';
import { noApi } from '../../../../agent/api.ts';
import { notifyAll } from '../../../../agent/agent.ts';

/** Calls that wait until the model lets them pass: the places at which the world can change, or the process end. */
class Gate {
  #waiting: { readonly name: string; readonly open: () => void }[] = [];

  /** What waits, the oldest first. */
  get names(): readonly string[] {
    return this.#waiting.map(({ name }) => name);
  }

  /** Waits. One that is never let pass belongs to a process that is gone. */
  pass(name: string): Promise<void> {
    return new Promise((open) => {
      this.#waiting.push({ name, open });
    });
  }

  /** Lets one pass: the oldest is at 0. */
  open(at: number): void {
    const [call] = this.#waiting.splice(at, 1);
    call?.open();
  }
}

/** What a process finds around it. */
interface Surroundings {
  readonly kernel: FakeKernel;
  readonly clock: Clock;
  readonly health: () => HealthView;
  readonly answer: () => string | null;
  readonly save: (endpoints: ReconcileState['endpoints']) => void;
}

/** Breaks a port, to see that the model notices. */
export type Spoil = (ports: LoopPorts) => LoopPorts;

/** The product's loop in one process, each of whose reads and writes waits at a gate; it can be killed at any of them. */
export class LiveProcess {
  readonly gate = new Gate();
  readonly loop: Loop;
  writes = 0;
  readonly breaches: string[] = [];
  last: Assessment | null = null;
  readonly #around: Surroundings;
  #hasRead = false;
  #isDead = false;
  readonly #watches: Watch[] = [];

  constructor(around: Surroundings, memory: ReconcileState, spoil: Spoil) {
    this.#around = around;
    this.loop = new Loop(spoil(this.#createPorts()), ordinaryConfig, memory);
    this.loop.start();
  }

  /** The end by SIGKILL: what waits at the gate never happens, no timer runs. */
  kill(): void {
    this.#isDead = true;
    for (const watch of this.#watches) void watch.stop();
  }

  #createPorts(): LoopPorts {
    const { health, answer, save, clock } = this.#around;
    return {
      kernel: this.#createKernel(),
      askProxyMode: () => Promise.resolve(answer()),
      readListening: () => Promise.resolve(null),
      health: {
        watch: health,
        get view() {
          return health();
        },
      },
      api: noApi,
      clock: {
        now: () => clock.now(),
        date: () => clock.date(),
        schedule: (delayMs, callback) =>
          clock.schedule(delayMs, () => {
            if (!this.#isDead) callback();
          }),
      },
      report: notifyAll([{ synced: (assessment) => (this.last = assessment) }]),
      keeper: {
        keep: ({ endpoints }) => {
          save(endpoints);
        },
      },
      serving: { keep: () => undefined },
    };
  }

  #createKernel(): Kernel {
    const { kernel } = this.#around;
    return {
      read: async (query) => {
        await this.gate.pass('read');
        this.#hasRead = true;
        return await kernel.read(query);
      },
      apply: async (transaction) => {
        await this.gate.pass(`write ${transaction.family} ${transaction.dialect}`);
        if (!this.#hasRead) this.breaches.push('writes before it has read (I1)');
        this.writes += 1;
        await kernel.apply(transaction);
      },
      watch: (onTrigger) => {
        const watch = kernel.watch(onTrigger);
        this.#watches.push(watch);
        return watch;
      },
      keepReady: (places) => kernel.keepReady(places),
      resetFlows: (selection) => kernel.resetFlows(selection),
      countFlows: (vip) => kernel.countFlows(vip),
      listForwardChains: () => kernel.listForwardChains(),
      enableForwarding: (family, device) => kernel.enableForwarding(family, device),
      readLocalRoutes: () => kernel.readLocalRoutes(),
      addSourceRoute: (route) => kernel.addSourceRoute(route),
      removeSourceRoute: (route) => kernel.removeSourceRoute(route),
      abortOwnConnections: (vip) => kernel.abortOwnConnections(vip),
    };
  }
}
