import type { ObjectClient, WriteAnswer } from '../lib/kubernetes/writes.ts';
import { type TokenQueue, KeyedQueue, type QueueStatistics, type TurnResult } from '../lib/queue.ts';
import {
  type Write,
  type StepEvent,
  type Kind,
  LowPriority,
  RepeatedWrites,
  parseKey,
  listKeys,
  formatKey,
  forgottenMs,
  type Step,
  type WriteStep,
} from './step.ts';
import * as z from 'zod/mini';
import { objectVersion, fieldManager } from '../lib/kubernetes/client.ts';
import type { Clock, Random, Cancel } from '../lib/clock.ts';
import type { Regarding } from '../lib/telemetry/events.ts';
import { type Cache, type ClusterView, findMetadata, kindToSource, type WrittenKind } from './cache/cache.ts';
import { type StepKey, type WaitsFor, type Affected, isWoken, put } from './cache/known.ts';

interface ExecuteDependencies {
  readonly client: ObjectClient;
  /** How many writes, and reads between them, there may be for all keys together (S7). */
  readonly pace: TokenQueue;
  /** How long a write may take that begins now; 0 for one that may not begin. See `LeaderElection`. */
  readonly writeMs: () => number;
}

/** What became of a step's write, or of a read before it. */
export interface Execution {
  readonly result:
    | 'done'
    /** Somebody else was first. */
    | 'stale'
    /** This process does not lead any more: nothing was done. */
    | 'late'
    /** The API was not reached, or its answer says nothing: it may be done. */
    | 'unknown'
    /** The API does not take it. */
    | 'refused';
  /** What was answered, as a sentence that can continue. */
  readonly detail: string;
  /** The version that the object has now; null where it is gone or nothing was written. */
  readonly version: string | null;
}

const late: Execution = { result: 'late', detail: 'this controller does not lead', version: null };

/** Makes a write as soon as its turn has come, unless what it rests on has changed. Never rejects. */
export async function execute(dependencies: ExecuteDependencies, write: Write): Promise<Execution> {
  const { client, pace, writeMs } = dependencies;
  await pace.take();
  for (const { path, version } of write.confirm) {
    const found = await readVersion(dependencies, path);
    if (found.result !== 'done') return found;
    if (found.version !== version) return { result: 'stale', detail: `${path} has changed`, version: null };
  }
  // Reading took time: that nobody else leads has to be true now.
  const limitMs = writeMs();
  if (limitMs === 0) return late;
  const { method, path, body, kind, key, isStrategic = false } = write;
  const title = `${methodToVerb[method]} ${kind} ${key}`;
  const { outcome, detail, version } = await client.write(
    { title, method, path, body, isStrategic },
    limitMs,
  );
  const isDeleted = method === 'DELETE' && outcome === 'gone';
  return { result: isDeleted ? 'done' : outcomeToResult[outcome], detail, version };
}

const schema = z.object({ metadata: z.object({ resourceVersion: objectVersion }) });

/** The version that an object has at the API: `done` with null where there is none. Never rejects. */
async function readVersion({ client, writeMs }: ExecuteDependencies, path: string): Promise<Execution> {
  const limitMs = writeMs();
  if (limitMs === 0) return late;
  const answer = await client.read({ title: `reading ${path}`, path, schema }, limitMs);
  if (answer.outcome === 'forbidden' || answer.outcome === 'unreachable')
    return { result: outcomeToResult[answer.outcome], detail: answer.detail, version: null };
  const version = answer.outcome === 'gone' ? null : answer.object.metadata.resourceVersion;
  return { result: 'done', detail: `${path} is read`, version };
}

const methodToVerb = { POST: 'creating', PATCH: 'changing', DELETE: 'deleting' } as const;

const outcomeToResult = {
  taken: 'done',
  conflict: 'stale',
  exists: 'stale',
  gone: 'stale',
  forbidden: 'refused',
  refused: 'refused',
  unreachable: 'unknown',
} as const satisfies Record<WriteAnswer['outcome'], Execution['result']>;

/** The dependencies of an engine, and its listeners. */
export interface EngineOptions extends ExecuteDependencies {
  /** Their keys have their turns in one queue. They begin when all that they watch is known. */
  readonly kinds: readonly Kind[];
  readonly clock: Clock;
  readonly random: Random;
  readonly cache: Cache;
  /** A write is done. Here and below, `regarding` is the object that events of the key are about, if any is known. */
  readonly onWritten: (key: StepKey, event: StepEvent | null, regarding: Regarding | null) => void;
  /** A write is not done; `failures` turns of that key have failed in a row before. */
  readonly onFailed: (
    key: StepKey,
    outcome: Execution,
    failures: number,
    regarding: Regarding | null,
  ) => void;
  /** What is written for a key does not stay: others that write the object, by the names of field managers. */
  readonly onConflict: (key: StepKey, managers: readonly string[], regarding: Regarding | null) => void;
  /** The informer of a kind has not shown a write for long, and the API has it: what the informer knows is old. Called at each check. */
  readonly onBehind: (kind: string) => void;
  /** A fault of vipnat itself. */
  readonly onError: (key: StepKey, error: unknown) => void;
}

/** A step takes milliseconds, and the pace of writes is the same for all: more workers would wait for each other. */
const workers = 4;

/** An informer shows a write after milliseconds; one that has not after this is cut off, or its watch is frozen. */
export const shownMs = 15_000;

/** Keys that wait are checked as soon as something is news to them, and so long after the last time: thousands can wait for the same. */
const wakeMs = 100;

/** A pool that is to go waits this long between two checks of writes that may have given its addresses. */
const givenMs = 1000;

/** Whatever the clocks do, a key that waits for a moment is checked this often. */
const maxWaitMs = 5 * 60_000;

/** Takes steps from the first `begin` to `stop`: one write for one key at a time, then it waits until the informer has shown it. */
export class Engine {
  readonly #options: EngineOptions;
  readonly #kinds: ReadonlyMap<string, Kind>;
  readonly #queue: KeyedQueue;
  readonly #writes = new OwnWrites();
  readonly #lowPriority = new LowPriority();
  readonly #repeated = new RepeatedWrites();
  /** Keys of Services to who else writes their status. */
  readonly #conflicts = new Map<string, readonly string[]>();
  /** Keys whose last write the API did not take, to its answer. */
  readonly #refusals = new Map<string, string>();
  /** Keys to what their last step waits for. */
  readonly #waits = new Map<string, Extract<Step, { does: 'wait' }>>();
  /** Keys to since when their object has something to do, turn after turn, by the clock that does not jump. See `toLife`. */
  readonly #waitsSince = new Map<string, { readonly life: string; readonly sinceMs: number }>();
  /** What has happened that keys wait for, and nobody was woken for yet. */
  readonly #wakes = new Set<WaitsFor>();
  #wokenAt = -Infinity;
  #cancelWake: Cancel = () => undefined;
  #hasBegun = false;

  constructor(options: EngineOptions) {
    this.#options = options;
    const { clock, random, onError, kinds } = options;
    this.#kinds = new Map(kinds.map((kind) => [kind.name, kind]));
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
    for (const key of listKeys(this.#options.kinds, this.#view)) this.#queue.add(formatKey(key));
  }

  /** The cache has taken a change: of the object `KIND/KEY`, if it is of one. Before `begin` nobody gets a turn for it. */
  enqueue({ keys, wakes }: Affected, object: string | null): void {
    if (!this.#hasBegun) return;
    if (object !== null) for (const key of this.#writes.findWriters(object)) this.#queue.add(key);
    for (const key of keys) if (this.#kinds.has(key.kind)) this.#queue.add(formatKey(key));
    if (wakes.size === 0) return;
    const isPlanned = this.#wakes.size > 0;
    for (const wake of wakes) this.#wakes.add(wake);
    if (isPlanned) return;
    const { clock } = this.#options;
    const waitMs = this.#wokenAt + wakeMs - clock.now();
    if (waitMs <= 0) this.#wake();
    else
      this.#cancelWake = clock.schedule(waitMs, () => {
        this.#wake();
      });
  }

  get statistics(): QueueStatistics {
    return this.#queue.statistics;
  }

  /** Takes no further step, and waits for the writes in progress. */
  async stop(): Promise<void> {
    this.#cancelWake();
    await this.#queue.stop();
  }

  #wake(): void {
    this.#wokenAt = this.#options.clock.now();
    const view = this.#view;
    for (const [key, { waitsFor, isStill }] of this.#waits)
      if (isWoken(waitsFor, this.#wakes) && isStill?.(view) !== true) this.#queue.add(key);
    this.#wakes.clear();
  }

  get #view(): ClusterView {
    const { cache, clock } = this.#options;
    return { ...cache.view(clock.date().getTime()), conflicts: this.#conflicts, refusals: this.#refusals };
  }

  #getKind({ kind }: StepKey): Kind {
    const known = this.#kinds.get(kind);
    if (known === undefined) throw new TypeError(`no kind: ${kind}`);
    return known;
  }

  /** Null where the object is not known, or nothing is reported of the kind. */
  #toRegarding(key: StepKey, view: ClusterView): Regarding | null {
    const { source, subject } = this.#getKind(key);
    const { uid } = findMetadata(view, source, key.key);
    if (subject === null || uid === undefined) return null;
    const at = key.key.indexOf('/');
    const namespace = at < 0 ? {} : { namespace: key.key.slice(0, at) };
    return { ...subject, ...namespace, name: key.key.slice(at + 1), uid };
  }

  #findTenant(key: StepKey): string {
    const at = key.key.indexOf('/');
    return this.#getKind(key).findTenant?.(key.key, this.#view) ?? key.key.slice(0, Math.max(0, at));
  }

  async #turn(text: string, failures: number): Promise<TurnResult> {
    const { clock } = this.#options;
    const key = parseKey(text);
    const awaited = await this.#awaitOwnWrite(key, failures);
    if (awaited !== null) return awaited;
    this.#waits.delete(text);
    const view = { ...this.#view, waitedMs: this.#readWaitedMs(key, text) };
    const step = this.#getKind(key).next(key.key, view);
    const isLow = step.does === 'write' && step.isLowPriority === true;
    const lowMs = isLow ? this.#lowPriority.wait(text, clock.now()) : 0;
    if (!isLow) this.#lowPriority.forget(text);
    const waitMs = Math.max(lowMs, this.#waitForRepeated(key, step, view));
    if (waitMs > 0) return { kind: 'again', afterMs: waitMs };
    if (step.does === 'write') return await this.#write(key, step, { view, failures });
    this.#refusals.delete(text);
    if (this.#isConflicting(key, view)) return { kind: 'again', afterMs: forgottenMs };
    return this.#noteWait(text, step, view);
  }

  #readWaitedMs(key: StepKey, text: string): number {
    const [life, now] = [toLife(this.#getKind(key), key, this.#view), this.#options.clock.now()];
    const known = this.#waitsSince.get(text);
    const since = known?.life === life ? known : { life, sinceMs: now };
    this.#waitsSince.set(text, since);
    return now - since.sinceMs;
  }

  #noteWait(text: string, step: Exclude<Step, WriteStep>, { nowMs }: ClusterView): TurnResult {
    if (step.does === 'nothing') {
      this.#waitsSince.delete(text);
      return { kind: 'done' };
    }
    this.#waits.set(text, step);
    if (step.untilMs === null) return { kind: 'done' };
    return { kind: 'again', afterMs: Math.min(Math.max(0, step.untilMs - nowMs), maxWaitMs) };
  }

  async #write(
    key: StepKey,
    { write, event, endsPool, overdue }: WriteStep,
    { view, failures }: { readonly view: ClusterView; readonly failures: number },
  ): Promise<TurnResult> {
    const { clock, onWritten, onFailed } = this.#options;
    if (endsPool !== undefined && this.#writes.mayHaveGivenOf(endsPool))
      return { kind: 'again', afterMs: givenMs };
    const object = `${write.kind}/${write.key}`;
    const readPath = this.#getKind(key).findReadPath?.(write) ?? null;
    const known = { object, before: findVersion(object, view), readPath, givesOf: write.givesOf };
    const text = formatKey(key);
    // Until the answer comes nobody knows whether it was written.
    if (readPath !== null)
      this.#writes.add(text, { ...known, after: undefined, untilMs: clock.now() + shownMs });
    const outcome = await execute(this.#options, write);
    put(this.#refusals, text, outcome.result === 'refused' ? outcome.detail : null);
    if (['done', 'stale'].includes(outcome.result)) this.#noteRepeated(key, write, view);
    if (outcome.result !== 'done') {
      if (outcome.result !== 'unknown') this.#writes.drop(text);
      onFailed(key, outcome, failures, this.#toRegarding(key, this.#view));
      return { kind: 'failed' };
    }
    this.#writes.add(text, { ...known, after: outcome.version, untilMs: clock.now() + shownMs });
    this.enqueue(this.#options.cache.markOverdue(overdue), null);
    onWritten(key, event, this.#toRegarding(key, view));
    // The informer may have shown it before the answer came.
    return { kind: 'again', afterMs: 0 };
  }

  /** How long a key waits that writes the same again and again. */
  #waitForRepeated(key: StepKey, step: Step, view: ClusterView): number {
    const kind = this.#getKind(key);
    if (step.does !== 'write' || kind.mayRepeat === true) return 0;
    return this.#repeated.wait(toLife(kind, key, view), step.write, this.#options.clock.now());
  }

  /** The same for the sixth time: another program takes it back, or the API does not keep it. */
  #noteRepeated(key: StepKey, write: Write, view: ClusterView): void {
    const kind = this.#getKind(key);
    if (kind.mayRepeat === true) return;
    if (!this.#repeated.note(toLife(kind, key, view), write, this.#options.clock.now())) return;
    const managers = listManagers(kind, key, view);
    const isNotified = key.kind === 'Service' && view.conflicts.has(key.key);
    if (key.kind === 'Service') this.#conflicts.set(key.key, managers);
    if (!isNotified) this.#options.onConflict(key, managers, this.#toRegarding(key, view));
  }

  /** Whether another program did so of late. */
  #isConflicting(key: StepKey, view: ClusterView): boolean {
    if (key.kind !== 'Service' || !view.conflicts.has(key.key)) return false;
    const life = toLife(this.#getKind(key), key, view);
    if (!this.#repeated.isQuiet(life, this.#options.clock.now())) return true;
    this.#conflicts.delete(key.key);
    this.#queue.add(formatKey(key));
    return false;
  }

  /** Null: the key may continue. What became of a write that the informer does not show is read at the API. */
  async #awaitOwnWrite(key: StepKey, failures: number): Promise<TurnResult | null> {
    const { clock, onFailed, onBehind } = this.#options;
    const keyStatus = this.#judgeWrite(key);
    if (keyStatus.kind === 'clear') return null;
    if (keyStatus.kind === 'read') {
      const { write, path } = keyStatus;
      await this.#options.pace.take();
      const outcome = await readVersion(this.#options, path);
      if (outcome.result !== 'done') {
        onFailed(key, outcome, failures, this.#toRegarding(key, this.#view));
        return { kind: 'failed' };
      }
      const before = findVersion(write.object, this.#view);
      const untilMs = clock.now() + shownMs;
      this.#writes.add(formatKey(key), { ...write, before, after: outcome.version, untilMs });
      if (this.#judgeWrite(key).kind === 'clear') return null;
      if (write.after !== undefined) onBehind(parseKey(write.object).kind);
    }
    return { kind: 'again', afterMs: shownMs };
  }

  #judgeWrite(key: StepKey): KeyStatus {
    const view = this.#view;
    const now = this.#options.clock.now();
    return this.#writes.judge(formatKey(key), (object) => findVersion(object, view), now);
  }
}

/** The version of `KIND/KEY`; null for what is not known. */
function findVersion(object: string, view: ClusterView): string | null {
  const { kind, key } = parseKey(object);
  return findMetadata(view, kindToSource[kind as WrittenKind], key).resourceVersion ?? null;
}

/** A key, and which object of that name it is: a new one starts from nothing. */
export function toLife({ source }: Kind, key: StepKey, view: ClusterView): string {
  return `${formatKey(key)} ${findMetadata(view, source, key.key).uid ?? ''}`;
}

/** Who else has written the object of a key, as far as that is read. */
function listManagers({ source }: Kind, { key }: StepKey, view: ClusterView): readonly string[] {
  const { managedFields } = findMetadata(view, source, key);
  return (managedFields ?? []).filter((each) => each !== fieldManager && each !== '');
}

/**
 * Which writes of this process the informer has not shown yet. A key with one of them waits: its next step would rest on the past.
 *
 * A step that writes its own object could continue all the same: the version that it knows is refused. A Service's step that writes a
 * VirtualIP has no such guard: the next step cannot know of an address that no list has yet, and the finalizer would go. So
 * where the answer of such a write was lost, or no list shows it in time, the object is read before the next step.
 */
export class OwnWrites {
  readonly #keyToWrite = new Map<string, OwnWrite>();

  /** A key's step was written. */
  add(key: string, write: OwnWrite): void {
    this.drop(key);
    this.#keyToWrite.set(key, write);
  }

  /** What a key's last write means for its next step, given the versions that are known; null is for an object that is not. */
  judge(key: string, readVersion: (object: string) => string | null, now: number): KeyStatus {
    const write = this.#keyToWrite.get(key);
    if (write === undefined) return { kind: 'clear' };
    if (!isShown(write, readVersion(write.object))) {
      if (write.after !== undefined && now < write.untilMs) return { kind: 'wait' };
      if (write.readPath !== null) return { kind: 'read', write, path: write.readPath };
    }
    this.drop(key);
    return { kind: 'clear' };
  }

  /** A key's step was not written after all. */
  drop(key: string): void {
    this.#keyToWrite.delete(key);
  }

  /** Whether an address of a pool may be given that no list shows. */
  mayHaveGivenOf(pool: string): boolean {
    return [...this.#keyToWrite.values()].some(({ givesOf }) => givesOf === pool);
  }

  /** The keys whose steps wrote an object: they may be due when it changes. */
  findWriters(object: string): readonly string[] {
    return [...this.#keyToWrite].flatMap(([key, write]) => (write.object === object ? [key] : []));
  }
}

/** Whether a key may have its next step. */
export type KeyStatus =
  | { readonly kind: 'clear' }
  /** The informer is to show the write first. */
  | { readonly kind: 'wait' }
  /** The object is to be read first: `add` takes what was found, as what the write made of it. */
  | { readonly kind: 'read'; readonly write: OwnWrite; readonly path: string };

/** One write. */
export interface OwnWrite {
  /** `KIND/KEY` of what was written. */
  readonly object: string;
  /** The version that was known before; null where the object was not known. */
  readonly before: string | null;
  /** The version that it got; null where it was deleted, or is not there; undefined where nobody knows whether it was written. */
  readonly after: string | null | undefined;
  /** Where the object is read, if nothing else says what became of it; null where the next step needs no such thing. */
  readonly readPath: string | null;
  /** The pool whose address it gives, if it gives one. */
  readonly givesOf?: string | undefined;
  /** By the Clock: no longer than this without another check. A list that was made after a gap may not have every version. */
  readonly untilMs: number;
}

const isNumber = /^\d+$/;

/** Versions of one kind are numbers that grow (Kubernetes, KEP 5504). */
function isShown({ before, after }: OwnWrite, known: string | null): boolean {
  // Whatever came after the version that the write names says what became of the write.
  if (after === undefined) return known !== before;
  if (known === after) return true;
  if (known === null) return before !== null;
  if (after !== null && isNumber.test(known) && isNumber.test(after)) return BigInt(known) >= BigInt(after);
  return known !== before;
}
