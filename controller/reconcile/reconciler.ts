/**
 * Takes steps: one write for one key at a time, then waits until the informer has shown it. What a step is, `next-step.ts` says;
 * here is only when one is taken.
 */
import { type Cancel, type Clock } from '../../lib/control/clock.ts';
import { KeyedQueue, type QueueStatistics, type TurnResult } from '../../lib/control/keyed-queue.ts';
import { type Random } from '../../lib/control/random.ts';
import { type StepKey, type WaitsFor } from '../world/keys.ts';
import { type Affected } from '../world/affected.ts';
import { listUsers } from '../world/object-parts.ts';
import { type WorldStore } from '../world/world-store.ts';
import { type World } from '../world/world.ts';
import { type CarriedOut, carryOut, type CarryOutPorts, readVersion } from './carry-out.ts';
import { formatKey, parseKey } from './key-text.ts';
import { findVersion, getKind, isOfGates, listManagers, toLife, toObjectKey } from './known-versions.ts';
import { OwnWrites, type Standing } from './own-writes.ts';
import { Patience } from './patience.ts';
import { forgottenMs, RepeatedWrites } from './repeated-writes.ts';
import { type Step, type StepEvent, type Write } from './step.ts';
import { type Steps } from './steps.ts';
import { findReadPath } from './writes.ts';

/** What it needs of the world, and its listeners. */
export interface ReconcilerOptions extends CarryOutPorts {
  readonly steps: Steps;
  readonly clock: Clock;
  readonly random: Random;
  readonly store: WorldStore;
  /** A write is done. */
  readonly onWritten: (key: StepKey, event: StepEvent | null, world: World) => void;
  /** A write is not done; `failures` turns of that key have failed in a row before. */
  readonly onFailed: (key: StepKey, outcome: CarriedOut, failures: number) => void;
  /** What is written for a key does not stay: others that write the object, by the names of field managers. */
  readonly onContested: (key: StepKey, managers: readonly string[], world: World) => void;
  /** The informer of a kind has not shown a write for long, and the API has it: what the informer knows is old. Told at each look. */
  readonly onBehind: (kind: string) => void;
  /** A fault of ours. */
  readonly onError: (key: StepKey, error: unknown) => void;
}

/** A step takes milliseconds, and the pace of writes is the same for all: more workers would wait for each other. */
const workers = 4;

/** An informer shows a write after milliseconds; one that has not after this is cut off, or its watch is frozen. */
export const shownMs = 15_000;

/** A pool that is to go waits this long between looks at writes that may have given its addresses. */
const givenMs = 1000;

/** Whatever the clocks do, a key that waits for a moment is looked at this often. */
const maxWaitMs = 5 * 60_000;

/** Takes steps from the first `begin` to `stop`. */
export class Reconciler {
  readonly #options: ReconcilerOptions;
  readonly #queue: KeyedQueue;
  readonly #writes = new OwnWrites();
  readonly #patience = new Patience();
  readonly #repeated = new RepeatedWrites();
  /** Keys of Services to who else writes their status. */
  readonly #contested = new Map<string, readonly string[]>();
  /** Keys to what their last step waits for. */
  readonly #waits = new Map<string, WaitsFor>();
  /** What has happened that keys wait for, and nobody was woken for yet. */
  readonly #wakes = new Set<WaitsFor>();
  #cancelWake: Cancel = () => undefined;
  #hasBegun = false;

  constructor(options: ReconcilerOptions) {
    this.#options = options;
    const { clock, random, onError } = options;
    this.#queue = new KeyedQueue({
      ...{ clock, random, workers },
      toGroup: (key) => this.#findTenant(parseKey(key)),
      work: (key, failures) => this.#turn(key, failures),
      onError: (key, error) => {
        onError(parseKey(key), error);
      },
    });
  }

  /** All objects are known: every key gets a turn. */
  begin(): void {
    this.#hasBegun = true;
    for (const key of this.#options.steps.listKeys(this.#world)) this.#queue.add(key);
  }

  /** The store has taken a change: of the object `KIND/KEY`, if it is of one. Before `begin` nobody gets a turn for it. */
  hear({ keys, wakes }: Affected, object: string | null): void {
    if (!this.#hasBegun) return;
    if (object !== null) for (const key of this.#writes.findWriters(object)) this.#queue.add(key);
    const { steps, clock } = this.#options;
    for (const key of keys) if (steps.owns(key)) this.#queue.add(formatKey(key));
    if (wakes.size === 0) return;
    const isPlanned = this.#wakes.size > 0;
    for (const wake of wakes) this.#wakes.add(wake);
    if (steps.wakeMs === 0) this.#wake();
    else if (!isPlanned)
      this.#cancelWake = clock.schedule(steps.wakeMs, () => {
        this.#wake();
      });
  }

  /** How the queue does. */
  get statistics(): QueueStatistics {
    return this.#queue.statistics;
  }

  /** Takes no further step, and waits for the writes under way. */
  async stop(): Promise<void> {
    this.#cancelWake();
    await this.#queue.stop();
  }

  #wake(): void {
    for (const [key, waitsFor] of this.#waits) if (this.#wakes.has(waitsFor)) this.#queue.add(key);
    this.#wakes.clear();
  }

  get #world(): World {
    const { store, clock } = this.#options;
    return { ...store.view(clock.date().getTime()), contested: this.#contested };
  }

  /** The namespace that a key is of, as each has its turns beside the others: that of its first Service where it has none itself. */
  #findTenant(key: StepKey): string {
    if ('namespace' in key) return key.namespace;
    if (key.kind !== 'VirtualIP') return '';
    const { virtualIps, lostVirtualIps } = this.#world;
    const [user] = listUsers(virtualIps.get(key.name) ?? lostVirtualIps.get(key.name) ?? null);
    return user?.split('/')[0] ?? '';
  }

  async #turn(text: string, failures: number): Promise<TurnResult> {
    const { clock } = this.#options;
    const key = parseKey(text);
    const awaited = await this.#awaitOwnWrite(key, failures);
    if (awaited !== null) return awaited;
    this.#waits.delete(text);
    const world = this.#world;
    const step = this.#options.steps.next(key, world);
    const isPatient = step.does === 'write' && step.isPatient === true;
    const patienceMs = isPatient ? this.#patience.wait(text, clock.now()) : 0;
    if (!isPatient) this.#patience.forget(text);
    const waitMs = Math.max(patienceMs, this.#waitForRepeated(key, step, world));
    if (waitMs > 0) return { kind: 'again', afterMs: waitMs };
    if (step.does === 'write') return await this.#write(key, step, { world, failures });
    if (this.#isContested(key, world)) return { kind: 'again', afterMs: forgottenMs };
    if (step.does === 'nothing') return { kind: 'done' };
    this.#waits.set(text, step.waitsFor);
    if (step.untilMs === null) return { kind: 'done' };
    return { kind: 'again', afterMs: Math.min(Math.max(0, step.untilMs - world.nowMs), maxWaitMs) };
  }

  async #write(
    key: StepKey,
    { write, event, endsPool }: WriteStep,
    { world, failures }: { readonly world: World; readonly failures: number },
  ): Promise<TurnResult> {
    const { clock, onWritten, onFailed } = this.#options;
    if (endsPool !== undefined && this.#writes.mayHaveGivenOf(endsPool))
      return { kind: 'again', afterMs: givenMs };
    const object = `${write.kind}/${write.key}`;
    const before = findVersion(object, world);
    const known = { object, before, readPath: findReadPath(key, write), givesOf: write.givesOf };
    const text = formatKey(key);
    // Until the answer comes nobody knows whether it was written.
    if (known.readPath !== null)
      this.#writes.add(text, { ...known, after: undefined, untilMs: clock.now() + shownMs });
    const outcome = await carryOut(this.#options, write);
    if (outcome.result === 'done' || outcome.result === 'stale') this.#noteRepeated(key, write, world);
    if (outcome.result !== 'done') {
      if (outcome.result !== 'unknown') this.#writes.drop(text);
      onFailed(key, outcome, failures);
      return { kind: 'failed' };
    }
    this.#writes.add(text, { ...known, after: outcome.version, untilMs: clock.now() + shownMs });
    onWritten(key, event, world);
    // The informer may have shown it before the answer came.
    return { kind: 'again', afterMs: 0 };
  }

  /** How long a key waits that writes the same again and again. */
  #waitForRepeated(key: StepKey, step: Step, world: World): number {
    if (step.does !== 'write' || isOfGates(key)) return 0;
    return this.#repeated.wait(toLife(key, world), step.write, this.#options.clock.now());
  }

  /** The same for the sixth time: another program takes it back, or the API does not keep it. */
  #noteRepeated(key: StepKey, write: Write, world: World): void {
    if (isOfGates(key) || !this.#repeated.note(toLife(key, world), write, this.#options.clock.now())) return;
    const managers = listManagers(key, world);
    const isTold = key.kind === 'Service' && world.contested.has(toObjectKey(key));
    if (key.kind === 'Service') this.#contested.set(toObjectKey(key), managers);
    if (!isTold) this.#options.onContested(key, managers, world);
  }

  /** Whether another program did so of late. */
  #isContested(key: StepKey, world: World): boolean {
    if (key.kind !== 'Service' || !world.contested.has(toObjectKey(key))) return false;
    if (!this.#repeated.isQuiet(toLife(key, world), this.#options.clock.now())) return true;
    this.#contested.delete(toObjectKey(key));
    this.#queue.add(formatKey(key));
    return false;
  }

  /** Null: the key may go on. What became of a write that the informer does not show is read at the API. */
  async #awaitOwnWrite(key: StepKey, failures: number): Promise<TurnResult | null> {
    const { clock, onFailed, onBehind } = this.#options;
    const standing = this.#judgeWrite(key);
    if (standing.kind === 'clear') return null;
    if (standing.kind === 'read') {
      const { write, path } = standing;
      const outcome = await readVersion(this.#options, path);
      if (outcome.result !== 'done') {
        onFailed(key, outcome, failures);
        return { kind: 'failed' };
      }
      const before = findVersion(write.object, this.#world);
      const untilMs = clock.now() + shownMs;
      this.#writes.add(formatKey(key), { ...write, before, after: outcome.version, untilMs });
      if (this.#judgeWrite(key).kind === 'clear') return null;
      if (write.after !== undefined) onBehind(getKind(write.object));
    }
    return { kind: 'again', afterMs: shownMs };
  }

  #judgeWrite(key: StepKey): Standing {
    const world = this.#world;
    const now = this.#options.clock.now();
    return this.#writes.judge(formatKey(key), (object) => findVersion(object, world), now);
  }
}

type WriteStep = Extract<Step, { does: 'write' }>;
