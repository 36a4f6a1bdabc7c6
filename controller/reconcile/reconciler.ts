/**
 * Takes steps: one write for one key at a time, then waits until the informer has shown it. What a step is, `next-step.ts` says;
 * here is only when one is taken.
 */
import { type Clock } from '../../lib/control/clock.ts';
import { KeyedQueue, type QueueStatistics, type TurnResult } from '../../lib/control/keyed-queue.ts';
import { type Random } from '../../lib/control/random.ts';
import { type StepKey, type WaitsFor } from '../world/keys.ts';
import { type Affected } from '../world/affected.ts';
import { type WorldStore } from '../world/world-store.ts';
import { type World } from '../world/world.ts';
import { type CarriedOut, carryOut, type CarryOutPorts } from './carry-out.ts';
import { formatKey, parseKey } from './key-text.ts';
import { nextStep } from './next-step.ts';
import { OwnWrites } from './own-writes.ts';
import { Patience } from './patience.ts';
import { type StepEvent, type Write } from './step.ts';

/** What it needs of the world, and its listeners. */
export interface ReconcilerOptions extends CarryOutPorts {
  readonly clock: Clock;
  readonly random: Random;
  readonly store: WorldStore;
  /** A write is done. */
  readonly onWritten: (key: StepKey, event: StepEvent | null, world: World) => void;
  /** A write is not done; `failures` turns of that key have failed in a row before. */
  readonly onFailed: (key: StepKey, outcome: CarriedOut, failures: number) => void;
  /** A fault of ours. */
  readonly onError: (key: StepKey, error: unknown) => void;
}

/** A step takes milliseconds, and the pace of writes is the same for all: more workers would wait for each other. */
const workers = 4;

/** An informer shows a write after milliseconds; one that is cut off lists anew before this. */
const shownMs = 15_000;

/** Whatever the clocks do, a key that waits for a moment is looked at this often. */
const maxWaitMs = 5 * 60_000;

/** Takes steps from the first `begin` to `stop`. */
export class Reconciler {
  readonly #options: ReconcilerOptions;
  readonly #queue: KeyedQueue;
  readonly #writes = new OwnWrites();
  readonly #patience = new Patience();
  /** Keys to what their last step waits for. */
  readonly #waits = new Map<string, WaitsFor>();
  #hasBegun = false;

  constructor(options: ReconcilerOptions) {
    this.#options = options;
    const { clock, random, onError } = options;
    this.#queue = new KeyedQueue({
      ...{ clock, random, workers },
      work: (key, failures) => this.#turn(key, failures),
      onError: (key, error) => {
        onError(parseKey(key), error);
      },
    });
  }

  /** All objects are known: every key gets a turn. */
  begin(): void {
    this.#hasBegun = true;
    const { pools, virtualIps, services } = this.#world;
    for (const name of pools.keys()) this.#queue.add(`AddressPool/${name}`);
    for (const name of virtualIps.keys()) this.#queue.add(`VirtualIP/${name}`);
    for (const key of services.keys()) this.#queue.add(`Service/${key}`);
  }

  /** The store has taken a change: of the object `KIND/KEY`, if it is of one. Before `begin` nobody gets a turn for it. */
  hear({ keys, wakes }: Affected, object: string | null): void {
    if (!this.#hasBegun) return;
    if (object !== null) for (const key of this.#writes.findWriters(object)) this.#queue.add(key);
    for (const key of keys) this.#queue.add(formatKey(key));
    if (wakes.size === 0) return;
    for (const [key, waitsFor] of this.#waits) if (wakes.has(waitsFor)) this.#queue.add(key);
  }

  /** How the queue does. */
  get statistics(): QueueStatistics {
    return this.#queue.statistics;
  }

  /** Takes no further step, and waits for the writes under way. */
  async stop(): Promise<void> {
    await this.#queue.stop();
  }

  get #world(): World {
    return this.#options.store.view(this.#options.clock.date().getTime());
  }

  async #turn(text: string, failures: number): Promise<TurnResult> {
    const { clock } = this.#options;
    const world = this.#world;
    if (this.#writes.isAwaited(text, (object) => findVersion(object, world), clock.now()))
      return { kind: 'again', afterMs: shownMs };
    this.#waits.delete(text);
    const key = parseKey(text);
    const step = nextStep(key, world);
    const isPatient = step.does === 'write' && step.isPatient === true;
    const waitMs = isPatient ? this.#patience.wait(text, clock.now()) : 0;
    if (!isPatient) this.#patience.forget(text);
    if (waitMs > 0) return { kind: 'again', afterMs: waitMs };
    if (step.does === 'write') return await this.#write(key, step, { world, failures });
    if (step.does === 'nothing') return { kind: 'done' };
    this.#waits.set(text, step.waitsFor);
    if (step.untilMs === null) return { kind: 'done' };
    return { kind: 'again', afterMs: Math.min(Math.max(0, step.untilMs - world.nowMs), maxWaitMs) };
  }

  async #write(
    key: StepKey,
    { write, event }: { readonly write: Write; readonly event: StepEvent | null },
    { world, failures }: { readonly world: World; readonly failures: number },
  ): Promise<TurnResult> {
    const { clock, onWritten, onFailed } = this.#options;
    const object = `${write.kind}/${write.key}`;
    const before = findVersion(object, world);
    const outcome = await carryOut(this.#options, write);
    if (outcome.result !== 'done') {
      onFailed(key, outcome, failures);
      return { kind: 'failed' };
    }
    const untilMs = clock.now() + shownMs;
    this.#writes.add(formatKey(key), { object, before, after: outcome.version, untilMs });
    onWritten(key, event, world);
    // The informer may have shown it before the answer came.
    return { kind: 'again', afterMs: 0 };
  }
}

function findVersion(object: string, { services, virtualIps, pools }: World): string | null {
  const [kind = ''] = object.split('/', 1);
  const key = object.slice(kind.length + 1);
  const found =
    kind === 'Service' ? services.get(key) : kind === 'VirtualIP' ? virtualIps.get(key) : pools.get(key);
  return found?.metadata.resourceVersion ?? null;
}
