import {
  type ApiObject,
  type Resource,
  type Unreadable,
  toKey,
  NonsenseError,
  VersionGoneError,
  IdleError,
  chooseSpecific,
  BusyError,
} from './client.ts';
import type { ApiRoute, Connection } from './route.ts';
import { type Clock, type Random, Pause, backOff, type Cancel } from '../clock.ts';
import { type VipnatError, toVipnatError } from '../errors.ts';
import { type WatchEvent, PageSize, answerMs, listObjects, watchObjects, idleSeconds } from './list-watch.ts';

/** The dependencies of a follower, and its listeners. */
export interface InformerOptions<T extends ApiObject> {
  readonly resource: Resource<T>;
  readonly route: ApiRoute;
  readonly clock: Clock;
  readonly random: Random;
  /** What differs from before, and all objects: after each list, even when nothing does, and after each event that changes something. */
  readonly onChanges: (changes: readonly Change<T>[], objects: ReadonlyMap<string, T>) => void;
  /** An object cannot be read, reported once for each field that does not match its schema. All others are followed. */
  readonly onUnreadable: (unreadable: Unreadable) => void;
  /** Every server has been asked, and none has done: for as long as that lasts, after each attempt. */
  readonly onLost: (error: VipnatError) => void;
  /** A watch is up and has lasted, on this server. */
  readonly onFollowed: (connection: Connection) => void;
}

/** A watch that never ends would know of no new server; a new one costs a request. */
const watchSeconds = 120;

/** A watch that lasts for so long works: whoever sends nonsense does it immediately. */
const provenMs = 1000;

/** An API that does not have a kind gets it with its next version. */
const missingMs = 10 * 60_000;

/** Not more than one list or watch a second, however quickly they end. */
const paceMs = 1000;

/** Between rounds in which every server failed: two requests of every master in this time burden nobody, and its word counts soon. */
const firstRetryMs = 500;
/** The longest pause between such rounds. */
const maxRetryMs = 8000;

/** An object that came (`before` is null), changed, or went (`after` is null). */
export interface Change<T> {
  /** See `toKey`. */
  readonly key: string;
  readonly before: T | null;
  readonly after: T | null;
}

type UnreadableEvent = Extract<WatchEvent<never>, { type: 'unreadable' }>;

/** The objects of one kind, by their keys, as a list and the events after it have them. One event costs as much among 100,000 objects as among ten. */
export class ObjectStore<T extends ApiObject> {
  readonly #resource: Resource<T>;
  readonly #onUnreadable: (unreadable: Unreadable) => void;
  #objects = new Map<string, T>();
  /** Keys of those that cannot be read to why. */
  #keyToWhy: ReadonlyMap<string, string> = new Map();

  /** `onUnreadable` is called once for each object, and again where another field does not match its schema. */
  constructor(resource: Resource<T>, onUnreadable: (unreadable: Unreadable) => void = () => undefined) {
    this.#resource = resource;
    this.#onUnreadable = onUnreadable;
  }

  /** The keys of those that cannot be read, by lists and the events after them. */
  get unreadable(): readonly string[] {
    return [...this.#keyToWhy.keys()];
  }

  /** All objects: a view, which changes with them. */
  get objects(): ReadonlyMap<string, T> {
    return this.#objects;
  }

  /**
   * Takes a whole list. Answers what differs from before. An object of the same version is the same object. One that cannot be read
   * stays as it was.
   */
  replace(listed: readonly T[], unreadable: readonly Unreadable[] = []): Change<T>[] {
    this.#setUnreadable(unreadable, []);
    const before = this.#objects;
    this.#objects = new Map();
    for (const one of this.#resource.dropsUnreadable === true ? [] : unreadable) {
      const [key, known] = find(before, one);
      if (known !== null) this.#objects.set(key, known);
    }
    const changes: Change<T>[] = [];
    for (const after of listed) {
      const key = toKey(after);
      const known = before.get(key) ?? null;
      const isSame = known !== null && hasSameVersion(known, after);
      this.#objects.set(key, isSame ? known : after);
      if (!isSame) changes.push({ key, before: known, after });
    }
    const gone = [...before].filter(([key]) => !this.#objects.has(key));
    return [...gone.map(([key, object]) => ({ key, before: object, after: null })), ...changes];
  }

  /**
   * Takes an event. Answers what it changes. One that is older than what is known is of a server that is behind: it changes nothing.
   * @throws NonsenseError when there are more objects than there may be.
   */
  apply(event: WatchEvent<T>): Change<T>[] {
    if (event.type === 'bookmark') return [];
    const changes = event.type === 'unreadable' ? this.#applyUnreadable(event) : this.#applyObject(event);
    if (event.type !== 'unreadable' && this.#keyToWhy.size === 0) return changes;
    const key = event.type === 'unreadable' ? event.unreadable.key : toKey(event.object);
    // Of some kinds the namespace is not read: the key is the name alone.
    const others = [...this.#keyToWhy].filter(([each]) => each !== key && !each.endsWith(`/${key}`));
    this.#setUnreadable(event.type === 'unreadable' && !event.isGone ? [event.unreadable] : [], others);
    return changes;
  }

  #setUnreadable(unreadable: readonly Unreadable[], others: readonly [string, string][]): void {
    const before = this.#keyToWhy;
    this.#keyToWhy = new Map([...others, ...unreadable.map(({ key, why }): [string, string] => [key, why])]);
    for (const one of unreadable) if (before.get(one.key) !== one.why) this.#onUnreadable(one);
  }

  #applyUnreadable({ isGone, unreadable }: UnreadableEvent): Change<T>[] {
    if (!isGone && this.#resource.dropsUnreadable !== true) return [];
    return this.#drop(...find(this.#objects, unreadable));
  }

  #applyObject(event: Exclude<WatchEvent<T>, UnreadableEvent | { type: 'bookmark' }>): Change<T>[] {
    const { object } = event;
    const key = toKey(object);
    const before = this.#objects.get(key) ?? null;
    if (before !== null && isOlder(object, before)) return [];
    if (event.type === 'delete' || this.#resource.isKept?.(object) === false) return this.#drop(key, before);
    return before !== null && hasSameVersion(before, object) ? [] : [this.#put(key, before, object)];
  }

  #drop(key: string, before: T | null): Change<T>[] {
    this.#objects.delete(key);
    return before === null ? [] : [{ key, before, after: null }];
  }

  #put(key: string, before: T | null, object: T): Change<T> {
    const { kind, limits } = this.#resource;
    if (before === null && this.#objects.size === limits.objects)
      throw new NonsenseError(`it sends more than ${limits.objects} ${kind}s`);
    this.#objects.set(key, object);
    return { key, before, after: object };
  }
}

/** What is known of an object. Of some kinds the namespace is not read. */
function find<T>(objects: ReadonlyMap<string, T>, { key }: Unreadable): [key: string, known: T | null] {
  const name = key.split('/').at(-1) ?? '';
  const found = objects.has(key) ? key : name;
  return [found, objects.get(found) ?? null];
}

/** Versions of one kind can be compared as numbers (Kubernetes, KEP 5504); one that is no number is never older. */
function isOlder({ metadata: one }: ApiObject, { metadata: other }: ApiObject): boolean {
  const [version, known] = [one.resourceVersion, other.resourceVersion];
  if (!number.test(version) || !number.test(known)) return false;
  return version.length === known.length ? version < known : version.length < known.length;
}

const number = /^[1-9]\d*$/;

function hasSameVersion(one: ApiObject, other: ApiObject): boolean {
  return one.metadata.resourceVersion === other.metadata.resourceVersion;
}

/**
 * Follows the objects of one kind from `start` to `stop`: lists them, then watches from there on.
 *
 * Goal: what the API says is known a moment later, for as long as any apiserver answers.
 * Tension: a watch can end, break, or send nothing more without an error, and an answer can be anything.
 * Compromise: the server is asked to end each watch after some minutes, and vipnat's own limit ends one that says nothing for long.
 * A watch continues from the last version that was seen; after an answer that was no good, or 410, all is listed again, page by
 * page, and compared with what was known: listeners receive what differs, however it was found out.
 */
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
  #isStopped = false;
  readonly #pause: Pause;
  /** Ends the request in progress. */
  #aborting = new AbortController();
  #connection: Connection | null = null;

  constructor(options: InformerOptions<T>) {
    this.#options = options;
    this.#store = new ObjectStore(options.resource, (one) => {
      if (!this.#isStopped) options.onUnreadable(one);
    });
    this.#size = new PageSize(options.resource.limits);
    this.#pause = new Pause(options.clock);
  }

  /**
   * The version up to which listeners have received all, by lists, events and bookmarks; null before the first list. It stays while
   * the API is away or forgets versions.
   */
  get version(): string | null {
    return this.#reached;
  }

  get kind(): string {
    return this.#options.resource.kind;
  }

  /** The objects that cannot be read, and are left out. */
  get unreadable(): readonly string[] {
    return this.#store.unreadable;
  }

  /** Begins. Not to be called twice. */
  start(): void {
    void this.#run();
  }

  /** The number of the last request for a list whose answer listeners receive, or have received, see `relist`; -1 before the first list. */
  get listed(): number {
    return this.#listed;
  }

  /**
   * Lists all objects again, by a list that begins after this call. Answers the number that `listed` has once listeners receive it.
   * What is known stays until then.
   */
  relist(): number {
    this.#asked += 1;
    this.#version = null;
    this.#aborting.abort();
    this.#pause.wake();
    return this.#asked;
  }

  /** What is known was found to be old: lists all objects again, unless a list is asked for or in progress. */
  catchUp(): void {
    if (this.#version !== null) this.relist();
  }

  /** Tries again immediately if it is waiting: there is another server to ask. */
  wake(): void {
    this.#pause.wake();
  }

  /** Moves to another server if this one is down: a frozen process neither ends a watch nor sends anything. */
  failOver(): void {
    if (this.#connection === null || !this.#options.route.isWorseThanOthers(this.#connection.server)) return;
    this.rewatch();
  }

  /** Leaves the server: a watch elsewhere continues from the version that is known. */
  rewatch(): void {
    this.#aborting.abort();
  }

  /** Ends the request in progress. No listener is called afterwards. */
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
    if (error instanceof IdleError) return 0;
    // A fault of vipnat itself must not end the agent: the API is only one source.
    const problem = toVipnatError(error, 'API_ANSWER_UNEXPECTED', 'following the API');
    if (!isOfTheServer(problem)) this.#version = null;
    const { route, random, onLost } = this.#options;
    if (this.#connection !== null) route.markFailed(this.#connection.server);
    // A server that goes away is no loss yet: others may answer, or it may again.
    if (this.#isProven && problem.code === 'API_UNREACHABLE') return 0;
    this.#failures += 1;
    const rounds = Math.floor(this.#failures / route.count);
    this.#problem = chooseSpecific(this.#problem, problem);
    if (rounds > 0) onLost(this.#problem);
    if (this.#failures % route.count !== 0) return 0;
    this.#problem = null;
    const waitMs = backOff(rounds - 1, firstRetryMs, maxRetryMs) * (0.5 + random() / 2);
    return Math.max(waitMs, problem.cause instanceof BusyError ? problem.cause.retryAfterMs : 0);
  }

  /** Answers the version of the list. */
  async #list(connection: Connection): Promise<string> {
    const { resource, clock, route } = this.#options;
    const asked = this.#asked;
    const options = { ...connection, clock, forbidden: route.forbidden, signal: this.#aborting.signal };
    const limits = { limitMs: answerMs, size: this.#size };
    const { version, objects, unreadable } = await listObjects(resource, { ...options, ...limits });
    this.#listed = asked;
    this.#notify(this.#store.replace(objects, unreadable));
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
        idleSeconds: Math.round(idleSeconds * (1 + random() / 5)),
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
    this.#version = event.version;
    if (changes.length > 0) this.#notify(changes);
    this.#reached = event.version;
  }

  #notify(changes: readonly Change<T>[]): void {
    if (!this.#isStopped) this.#options.onChanges(changes, this.#store.objects);
  }

  #prove(connection: Connection): void {
    this.#failures = 0;
    this.#problem = null;
    this.#isProven = true;
    this.#options.onFollowed(connection);
  }
}

/** Whether a problem says nothing about a watch's version: the server is away or busy, or does not accept who asks. */
function isOfTheServer({ code, cause }: VipnatError): boolean {
  return code !== 'API_ANSWER_UNEXPECTED' || cause instanceof BusyError;
}
