/**
 * Follows the objects of one kind: lists them, then watches from there on.
 *
 * Goal: what the API says is known a moment later, for as long as any apiserver answers.
 * Tension: a watch can end, break, or fall silent without a word, and an answer can be anything.
 * Compromise: the server is told to end each watch after some minutes, and a limit of our own ends one that says nothing for long.
 * A watch goes on from the last version that was seen; after an answer that was no good, or 410, all is listed again, page by
 * page, and compared with what was known: listeners hear what differs, whichever way it was found out.
 */
import { type Cancel } from '../control/clock.ts';
import { Pause } from '../control/pause.ts';
import { VipnatError } from '../text/errors.ts';
import { backOff } from '../control/backoff.ts';
import { chooseTelling, NonsenseError, SilenceError, toInternal, VersionGoneError } from './errors.ts';
import { type InformerOptions } from './informer-options.ts';
import { firstRetryMs, maxRetryMs, missingMs, paceMs, provenMs, watchSeconds } from './informer-pace.ts';
import { listObjects } from './list-objects.ts';
import { type WatchEvent } from './answers.ts';
import { type ApiObject } from './api-object.ts';
import { PageSize } from './page-size.ts';
import { type Change, ObjectStore } from './object-store.ts';
import { type Connection } from './route.ts';
import { UnreadableObjects } from './unreadable-objects.ts';
import { answerMs, silenceSeconds, watchObjects } from './watch-objects.ts';

/** Follows one kind from `start` to `stop`. */
export class Informer<T extends ApiObject> {
  readonly #options: InformerOptions<T>;
  readonly #store: ObjectStore<T>;
  readonly #size: PageSize;
  /** From where to watch on; null while all is to be listed. */
  #version: string | null = null;
  #reached: string | null = null;
  /** How many lists were asked for, and up to which of them all that is known was listed. */
  #asked = 0;
  #listed = -1;
  #failures = 0;
  #isProven = false;
  /** The most telling problem of this round. */
  #problem: VipnatError | null = null;
  readonly #unreadable: UnreadableObjects;
  #isStopped = false;
  readonly #pause: Pause;
  /** Ends the request under way. */
  #aborting = new AbortController();
  #connection: Connection | null = null;

  constructor(options: InformerOptions<T>) {
    this.#options = options;
    this.#store = new ObjectStore(options.resource);
    this.#size = new PageSize(options.resource.limits);
    this.#unreadable = new UnreadableObjects((one) => {
      if (!this.#isStopped) options.onUnreadable(one);
    });
    this.#pause = new Pause(options.clock);
  }

  /**
   * The version up to which listeners have heard all, by lists, events and bookmarks; null before the first list. It stays while
   * the API is away or forgets versions.
   */
  get version(): string | null {
    return this.#reached;
  }

  /** Whether all objects were listed once. */
  get hasSynced(): boolean {
    return this.#reached !== null;
  }

  /** Of the objects. */
  get kind(): string {
    return this.#options.resource.kind;
  }

  /** The objects that cannot be read, and are left out. */
  get unreadable(): UnreadableObjects['keys'] {
    return this.#unreadable.keys;
  }

  /** Begins. Not to be called twice. */
  start(): void {
    void this.#run();
  }

  /** The number of the last request for a list that listeners hear, or have heard, the answer to, see `relist`; -1 before the first list. */
  get listed(): number {
    return this.#listed;
  }

  /**
   * Lists all objects again, by a list that begins after this call. Answers the number that `listed` has once listeners hear of it.
   * What is known stays until then.
   */
  relist(): number {
    this.#asked += 1;
    this.#version = null;
    this.#aborting.abort();
    this.#pause.wake();
    return this.#asked;
  }

  /** What is known was found to be old: lists all objects again, unless a list is asked for or under way. */
  catchUp(): void {
    if (this.#version !== null) this.relist();
  }

  /** Tries again at once if it is waiting: there is another server to ask. */
  wake(): void {
    this.#pause.wake();
  }

  /** Moves to another server if this one is down: a frozen process neither ends a watch nor sends anything. */
  failOver(): void {
    if (this.#connection === null || !this.#options.route.isWorseThanOthers(this.#connection.server)) return;
    this.rewatch();
  }

  /** Leaves the server: a watch elsewhere goes on from the version that is known. */
  rewatch(): void {
    this.#aborting.abort();
  }

  /** Ends the request under way. No listener is called afterwards. */
  stop(): void {
    this.#isStopped = true;
    this.#aborting.abort();
    this.#pause.stop();
  }

  async #run(): Promise<void> {
    const { clock } = this.#options;
    while (!this.#isStopped) {
      const begun = clock.now();
      const waitMs = await this.#turn();
      if (waitMs !== 0) await this.#pause.wait(Math.max(0, begun + waitMs - clock.now()));
    }
  }

  /** Lists where that is needed, and watches to the end. Answers how long after its beginning the next turn may begin. */
  async #turn(): Promise<number> {
    this.#isProven = false;
    this.#aborting = new AbortController();
    const asked = this.#asked;
    try {
      const connection = await this.#options.route.choose();
      this.#connection = connection;
      this.#version ??= await this.#list(connection);
      if (this.#isStopped) return 0;
      const isMissing = this.#version === '';
      if (isMissing) [this.#version, this.#failures] = [null, 0];
      else await this.#watch(connection, this.#version);
      this.#options.route.resetFailures();
      return isMissing ? missingMs : paceMs;
    } catch (error) {
      return this.#isStopped || asked !== this.#asked ? 0 : this.#fail(error);
    } finally {
      this.#connection = null;
      if (asked !== this.#asked) this.#version = null;
    }
  }

  #fail(error: unknown): number {
    if (error instanceof VersionGoneError) {
      this.#version = null;
      return paceMs;
    }
    // A server that is frozen does not answer the next watch, and counts as failed then.
    if (error instanceof SilenceError) return 0;
    const problem = error instanceof VipnatError ? error : toInternal(error);
    if (problem.code !== 'API_UNREACHABLE') this.#version = null;
    const { route, random, onLost } = this.#options;
    if (this.#connection !== null) route.markFailed(this.#connection.server);
    // A server that goes away is no loss yet: others may answer, or it may again.
    if (this.#isProven && problem.code === 'API_UNREACHABLE') return 0;
    this.#failures += 1;
    const rounds = Math.floor(this.#failures / route.count);
    this.#problem = chooseTelling(this.#problem, problem);
    if (rounds > 0) onLost(this.#problem);
    if (this.#failures % route.count !== 0) return 0;
    this.#problem = null;
    return backOff(rounds - 1, firstRetryMs, maxRetryMs) * (0.5 + random() / 2);
  }

  /** Answers the version of the list. */
  async #list(connection: Connection): Promise<string> {
    const { resource, clock, route } = this.#options;
    const asked = this.#asked;
    const options = { ...connection, clock, forbidden: route.forbidden, signal: this.#aborting.signal };
    const limits = { limitMs: answerMs, size: this.#size };
    const { version, objects, unreadable } = await listObjects(resource, { ...options, ...limits });
    this.#listed = asked;
    this.#unreadable.replace(unreadable);
    this.#tell(this.#store.replace(objects, unreadable));
    this.#reached = version;
    return version;
  }

  async #watch(connection: Connection, version: string): Promise<void> {
    const { resource, clock, random, route } = this.#options;
    const options = { ...connection, clock, forbidden: route.forbidden, signal: this.#aborting.signal };
    let cancelProof: Cancel = () => undefined;
    try {
      await watchObjects(resource, options, {
        version,
        seconds: Math.round(watchSeconds * (1 + random() / 2)),
        silenceSeconds: Math.round(silenceSeconds * (1 + random() / 5)),
        onBegin: () => {
          cancelProof = clock.schedule(provenMs, () => {
            this.#prove(connection);
          });
        },
        onEvent: (event) => {
          this.#take(event);
        },
        onEnd: () => {
          if (!this.#isProven) throw new NonsenseError('it ended immediately');
        },
      });
    } finally {
      cancelProof();
    }
  }

  #take(event: WatchEvent<T>): void {
    if (this.#isStopped) return;
    const changes = this.#store.apply(event);
    this.#unreadable.apply(event);
    this.#version = event.version;
    if (changes.length > 0) this.#tell(changes);
    this.#reached = event.version;
  }

  #tell(changes: readonly Change<T>[]): void {
    if (!this.#isStopped) this.#options.onChanges(changes, this.#store.objects);
  }

  #prove(connection: Connection): void {
    this.#failures = 0;
    this.#problem = null;
    this.#isProven = true;
    this.#options.onFollowed(connection);
  }
}
