import type { Trigger, Watch } from '../../../lib/kernel/port.ts';
import type { Clock, Cancel } from '../../../lib/clock.ts';

/** How long after a change the real kernel's watch calls back at the latest. */
const triggerToDelayMs: Record<Trigger, number> = {
  ...{ 'own-rules': 50, 'nft-generation': 50, 'xtables-lock': 1, addresses: 100, ipvs: 1000 },
  forwarding: 1000,
};

/** The watches of a FakeKernel: changes of one kind within one delay come as one trigger, as polls have it. */
export class FakeWatches {
  readonly #clock: Clock;
  readonly #watchers = new Set<(trigger: Trigger) => void>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  open(onTrigger: (trigger: Trigger) => void): Watch {
    const pending = new Map<Trigger, Cancel>();
    const watcher = (trigger: Trigger) => {
      if (pending.has(trigger)) return;
      const cancel = this.#clock.schedule(triggerToDelayMs[trigger], () => {
        pending.delete(trigger);
        onTrigger(trigger);
      });
      pending.set(trigger, cancel);
    };
    this.#watchers.add(watcher);
    return {
      ready: Promise.resolve(),
      stop: () => {
        this.#watchers.delete(watcher);
        for (const cancel of pending.values()) cancel();
        return Promise.resolve();
      },
    };
  }

  /** Something changed: every open watch hears of it in a while. */
  trigger(trigger: Trigger): void {
    for (const watcher of this.#watchers) watcher(trigger);
  }
}
