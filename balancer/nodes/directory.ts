import type { ObjectClient } from '../../lib/kubernetes/writes.ts';
import { toLeaseResource, parseNodeLease, leaseDurationMs, type Lease } from '../../lib/api/node.ts';
import { type Clock, type Cancel, type Random, backOff, Rounds } from '../../lib/clock.ts';
import { families, type Family, type Address, parseAddress, classifyAddress } from '../../lib/net.ts';
import {
  findSourceAddress,
  connectOnce,
  type ConnectHistory,
  emptyConnects,
  addConnect,
  timeoutsToFailure,
  isCorroborating,
} from '../../lib/http/client.ts';
import { isDeepStrictEqual } from 'node:util';

/** An apiserver answers in milliseconds. */
const limitMs = 4000;

/** Reads when a Lease of vipnat's namespace was renewed: a text that each renewal changes, or null for no Lease. Rejects where the API does not say it. */
export function createRenewalReader(
  client: Pick<ObjectClient, 'read'>,
  namespace: string,
): (name: string) => Promise<string | null> {
  const { path, schema } = toLeaseResource(namespace);
  return async (name) => {
    const read = await client.read(
      { title: `reading Lease ${name}`, path: `${path}/${name}`, schema },
      limitMs,
    );
    if (read.outcome === 'gone') return null;
    if (read.outcome !== 'found') throw new Error(read.detail);
    return read.object.spec?.renewTime ?? '';
  };
}

/** The address of a host seldom changes. */
const pollMs = 60_000;

/** At which other nodes reach this one: as given, else where this host sends from by its default routes. From `start` to `stop`. */
export class NodeAddresses {
  readonly #clock: Clock;
  readonly #onChange: () => void;
  #list: readonly string[];
  readonly #rounds: Rounds;

  constructor(given: readonly string[], clock: Clock, onChange: () => void) {
    this.#list = given;
    this.#clock = clock;
    this.#onChange = onChange;
    this.#rounds = new Rounds(clock, this.#sync.bind(this), () => pollMs);
  }

  /** One of each family at most, unless more were given. Empty while none is known. */
  get list(): readonly string[] {
    return this.#list;
  }

  /** Whether a program answers on this host where other nodes ask. True where that cannot be known. Never rejects. */
  async isAnswered(port: number): Promise<boolean> {
    const [own] = this.#list.flatMap((text) => parseAddress(text) ?? []);
    if (port === 0 || own === undefined) return true;
    const endpoint = { family: own.family, address: own.text, port };
    return (await connectOnce(this.#clock, endpoint, { limitMs: 1000, end: 'reset' })).kind !== 'refused';
  }

  /** Begins to look, unless addresses were given. Not to be called twice. */
  start(): void {
    if (this.#list.length === 0) this.#rounds.plan(0);
  }

  stop(): void {
    void this.#rounds.stop();
  }

  async #sync(): Promise<void> {
    const found = (await Promise.all(families.map(findSourceAddress))).filter((one) => one !== null);
    // Without a route for a moment the host is where it was.
    if (this.#rounds.isStopped || found.length === 0 || found.join() === this.#list.join()) return;
    this.#list = found;
    this.#onChange();
  }
}

/**
 * Whether a node does not answer, by what connects to it have shown. Pure.
 *
 * Goal: a dead node's pods get no new connection within a second.
 * Tension: a missing answer is the node's fault, or this host's own network's; packets are lost, and links are down for a second or two.
 * Compromise: two failed connects in a row count, if another node answered in between (ADR 10): this host's network worked. If no other node
 * is left, new connections alone move. Open connections wait until the node's Lease has expired as well: a connection that is cut ends for
 * good. A node that renews its Lease lives, and a firewall came: after a minute it is in use again.
 *
 * A node that was away for 12 s may have started again. It answers long before its pods run, and until its kubelet has said so Kubernetes calls
 * its former pods ready. So it is back when its balancer has reported: that is a pod of the same kubelet.
 */

/** What is known of one node. Never changed in place. */
export interface NodeState {
  readonly history: ConnectHistory;
  /** Whether it ever answered at this address, this node or one that names it: otherwise a firewall may drop what is sent there. */
  readonly hasAnswered: boolean;
  /** Connects in a row that it answered. */
  readonly consecutiveAnswers: number;
  /** Since when it does not answer, if it is out of use: when the first unanswered connect was begun. */
  readonly outSince: number | null;
  /** Out, and its Lease has expired: its open connections are lost. */
  readonly isLost: boolean;
  /** What reads of its Lease have shown since it does not answer. */
  readonly lease: 'unread' | LeaseNews;
  /** When the first of the answers in a row was begun; null while it does not answer. */
  readonly answersSince: number | null;
  /** When its balancer was seen to have reported since the node answers; null before. */
  readonly reportedAt: number | null;
}

/** Of a node's Lease, between two reads: it was renewed, or it was not for as long as it lasts. */
type LeaseNews = 'renewed' | 'expired';

/** Of a node that was not asked yet. */
export const unknownNode: NodeState = {
  ...{ history: emptyConnects, hasAnswered: false, consecutiveAnswers: 0, answersSince: null },
  ...{ outSince: null, isLost: false, lease: 'unread', reportedAt: null },
};

/** A node that has not answered so many connects does not at all. */
const unheardConnects = 8;

/** As many as the missing answers that take it out. */
const answersToReturn = 2;

/** A switch that chooses its paths again, or a virtual machine that moves, takes less. */
const unheardMs = 60_000;

/** A machine that starts again does not answer for longer. One that was only slow, or cut off, is back with its answers. */
const restartMs = 12_000;

/** What a kubelet says of its pods at its start is in the EndpointSlices of all nodes by then. */
const settleMs = 3000;

/** Kubernetes marks a node that reports nothing as not ready after 50 s: then its pods' state is Kubernetes' word. */
const maxWaitMs = 60_000;

interface NodeAnswer {
  readonly isAnswered: boolean;
  readonly askedAt: number;
  /** See `judgePeers`, as of when it was begun. */
  readonly peers: Peers;
}

/** Adds an answer, or that there was none. */
export function addAnswer(before: NodeState, answer: NodeAnswer, now: number): NodeState {
  const { isAnswered, askedAt } = answer;
  const result = isAnswered ? ({ kind: 'open' } as const) : ({ kind: 'silent', reason: '' } as const);
  const state = {
    ...before,
    history: addConnect(before.history, result, askedAt),
    hasAnswered: before.hasAnswered || isAnswered,
    lease: isAnswered ? ('unread' as const) : before.lease,
    consecutiveAnswers: isAnswered ? before.consecutiveAnswers + 1 : 0,
    answersSince: isAnswered ? (before.answersSince ?? askedAt) : null,
    reportedAt: isAnswered ? before.reportedAt : null,
  };
  return isAnswered ? judgeReturn(state, now) : judgeUnresponsive(state, answer, now);
}

/** Adds what its Lease has shown. It decides with the next connect: that brings a node back, or takes its open connections. */
export function addLease(before: NodeState, lease: LeaseNews, now: number): NodeState {
  if (before.answersSince === null) return { ...before, lease };
  return lease === 'renewed' ? { ...before, reportedAt: before.reportedAt ?? now } : before;
}

/** Whether a node that was away for so long that it may have started again answers, and is out until its balancer reports. */
export function isReturning({ consecutiveAnswers, outSince, answersSince }: NodeState): boolean {
  if (outSince === null || consecutiveAnswers < answersToReturn) return false;
  return (answersSince ?? 0) - outSince >= restartMs;
}

/** Whether what a node is used for is the same: its pods for new connections, and for open ones. */
export function isUsedAlike(one: NodeState, other: NodeState): boolean {
  return (
    one.outSince === other.outSince && one.isLost === other.isLost && isReturning(one) === isReturning(other)
  );
}

function judgeReturn(state: NodeState, now: number): NodeState {
  const { consecutiveAnswers, reportedAt, answersSince } = state;
  if (consecutiveAnswers < answersToReturn) return state;
  const isTrusted = now - (reportedAt ?? now) >= settleMs || now - (answersSince ?? now) >= maxWaitMs;
  return isReturning(state) && !isTrusted ? state : { ...state, outSince: null, isLost: false };
}

function judgeUnresponsive(state: NodeState, { peers }: NodeAnswer, now: number): NodeState {
  const { consecutiveTimeouts, troubleSince } = state.history;
  if (state.lease === 'renewed' && now - troubleSince >= unheardMs)
    return { ...state, hasAnswered: false, outSince: null, isLost: false };
  const isOver = state.hasAnswered && consecutiveTimeouts >= timeoutsToFailure && peers !== 'awaited';
  const outSince = state.outSince ?? (isOver ? troubleSince : null);
  const isLost = outSince !== null && peers === 'answer' && state.lease === 'expired';
  return { ...state, outSince, isLost: state.isLost || isLost };
}

/**
 * What other nodes show of this host's network since a node stopped answering: one was asked and answered, an answer can still come, or there
 * is none whose answer could come. Without an answer, the cause may be this host's own network: open connections stay.
 */
type Peers = 'answer' | 'awaited' | 'none';

/** Of a node that does not answer. */
export function judgePeers({ history }: NodeState, others: readonly NodeState[]): Peers {
  if (others.some((other) => isCorroborating(other.history, history.troubleSince))) return 'answer';
  return others.some((other) => other.hasAnswered && other.outSince === null) ? 'awaited' : 'none';
}

/** Whether it was asked often enough, has not answered at its address, and is in use all the same: it never has, or it lives by its Lease. */
export function isUnheard({ history, hasAnswered }: NodeState): boolean {
  return !hasAnswered && history.consecutiveTimeouts >= unheardConnects;
}

/** Whether the next answer may take it out of use, or bring it back: it is asked again soon. */
export function isUndecided({ history, hasAnswered, outSince, consecutiveAnswers }: NodeState): boolean {
  if (outSince === null) return hasAnswered && history.consecutiveTimeouts > 0;
  return consecutiveAnswers > 0 && consecutiveAnswers < answersToReturn;
}

/** What the caller supplies, and its listeners. */
export interface DirectoryPorts {
  readonly clock: Clock;
  readonly random: Random;
  /** Lists the Leases of vipnat's namespace. May reject. */
  readonly listLeases: () => Promise<readonly Lease[]>;
  /** The families that this host has an address of. */
  readonly families: () => ReadonlySet<Family>;
  /** Called when a node's address is another one. */
  readonly onChange: () => void;
  /** Called when a list fails for the first time in a row, and with null when one succeeds again. */
  readonly onProblem: (error: unknown) => void;
}

/** Addresses of nodes change when nodes are replaced. */
const refreshMs = 600_000;

/** Somebody is missed, or a list failed: between two lists. */
const firstRetryMs = 5000;
const maxRetryMs = 300_000;

/** Lists of many nodes about the same event are spread over so long. */
const spreadMs = 2000;

/** Between two lists because nodes do not answer. */
const reloadRestMs = 30_000;

/**
 * Where nodes are, as their balancers say in their Leases. From `start` to `stop`. What was said last stays.
 *
 * Goal: a node that comes, or comes back with another address, is known within seconds.
 * Tension: all nodes renew their Leases every 10 s. If each node watched all of them, a thousand nodes would receive 100,000 renewals a second.
 * Compromise: Leases are listed: at the start, periodically, and when a node is missing or does not answer.
 */
export class NodeDirectory {
  readonly #ports: DirectoryPorts;
  #nodeToAddress: ReadonlyMap<string, Address> = new Map();
  #named: ReadonlySet<string> = new Set();
  #wanted: ReadonlySet<string> = new Set();
  /** Lists in a row that failed, or after which somebody was missed. */
  #misses = 0;
  #isFailing = false;
  #listedAt = -Infinity;
  #restMs = Infinity;
  #isListing = false;
  readonly #lists: Rounds;

  constructor(ports: DirectoryPorts) {
    this.#ports = ports;
    this.#lists = new Rounds(ports.clock, this.#list.bind(this), () => this.#restMs);
  }

  /** The address of each node that has said it. The same map while nothing has changed. */
  get addresses(): ReadonlyMap<string, Address> {
    return this.#nodeToAddress;
  }

  /** The nodes that do not answer another one that holds addresses, as its Lease said last. */
  get named(): ReadonlySet<string> {
    return this.#named;
  }

  /** Whether a list has ended, also one that failed. */
  get isListed(): boolean {
    return this.#listedAt > -Infinity && !this.#isListing;
  }

  /** Lists soon. Not to be called twice. */
  start(): void {
    this.#lists.hasten(this.#ports.random() * spreadMs);
  }

  stop(): void {
    void this.#lists.stop();
  }

  /** Takes whose addresses are needed: lists soon if one is not known. */
  want(nodes: ReadonlySet<string>): void {
    const isNew = [...nodes].some((node) => !this.#wanted.has(node) && !this.#nodeToAddress.has(node));
    this.#wanted = nodes;
    if (!isNew) return;
    this.#misses = 0;
    this.#lists.hasten(Math.max(0, this.#listedAt + firstRetryMs - this.#ports.clock.now()));
  }

  /** Lists soon, as a node does not answer: its address may be another one by now. */
  reloadSoon(): void {
    const { clock, random } = this.#ports;
    if (clock.now() - this.#listedAt >= reloadRestMs) this.#lists.hasten(random() * spreadMs);
  }

  async #list(): Promise<void> {
    const { clock, random, listLeases } = this.#ports;
    this.#isListing = true;
    this.#listedAt = clock.now();
    const [listed] = await Promise.allSettled([listLeases()]);
    this.#isListing = false;
    if (this.#lists.isStopped) return;
    if (listed.status === 'fulfilled') this.#take(listed.value);
    this.#noteOutcome(listed);
    const isMissing = this.#isFailing || [...this.#wanted].some((node) => !this.#nodeToAddress.has(node));
    this.#misses = isMissing ? this.#misses + 1 : 0;
    const delayMs = isMissing ? backOff(this.#misses - 1, firstRetryMs, maxRetryMs) : refreshMs;
    this.#restMs = delayMs * (0.5 + random() / 2);
  }

  #noteOutcome(listed: PromiseSettledResult<unknown>): void {
    const { onProblem } = this.#ports;
    const isFailing = listed.status === 'rejected';
    if (isFailing !== this.#isFailing) onProblem(isFailing ? listed.reason : null);
    this.#isFailing = isFailing;
  }

  #take(leases: readonly Lease[]): void {
    const families = this.#ports.families();
    const reports = leases.flatMap((lease) => parseNodeLease(lease)?.report ?? []);
    this.#named = new Set(reports.flatMap(({ unresponsive = [] }) => unresponsive.map(({ node }) => node)));
    const found = new Map(
      reports.flatMap(({ node, addresses = [] }): [string, Address][] => {
        const address = chooseAddress(addresses, families);
        return address === null ? [] : [[node, address]];
      }),
    );
    if (isDeepStrictEqual(found, this.#nodeToAddress)) return;
    this.#nodeToAddress = found;
    this.#ports.onChange();
  }
}

/** The first one of a family that this host has, else the first one. Whoever writes a Lease is not trusted to name a host. */
function chooseAddress(texts: readonly string[], families: ReadonlySet<Family>): Address | null {
  const addresses = texts
    .flatMap((text) => parseAddress(text) ?? [])
    .filter((one) => classifyAddress(one) === 'unicast');
  return addresses.find(({ family }) => families.has(family)) ?? addresses[0] ?? null;
}

/** What the caller supplies, and its listener. */
export interface ReportsPorts {
  readonly clock: Clock;
  readonly random: Random;
  /** Reads when a node's balancer has renewed its Lease, as text; null where there is none. May reject. */
  readonly readRenewal: (node: string) => Promise<string | null>;
  /** From one read for a node that is awaited to the next, in milliseconds. Half of it at least passes. */
  readonly paceMs: () => number;
  /** Called with what a read has shown. A node whose Lease was renewed is not awaited any more. */
  readonly onLease: (node: string, news: LeaseNews) => void;
}

interface Watched {
  /** The renewal that was read last; undefined before the first one was. */
  renewal: string | null | undefined;
  /** When it was read first. */
  readAt: number;
  /** Reads in a row that found it again while the node did not answer. */
  repeats: number;
  isAwaited: boolean;
  cancel: Cancel;
}

/**
 * What the Leases of nodes that are out say: whether their balancers have renewed them. Of nodes that are out.
 *
 * Goal: a node that is back is known within a second or two on a node that has clients for its pods.
 * Tension: Leases are not watched (`NodeDirectory`), and all nodes wait for the same one.
 * Compromise: its Lease alone is read: when the node goes out, again when that Lease may have expired, and ever less often later. While the
 * node answers and is awaited, the caller chooses the pace.
 */
export class NodeReports {
  readonly #ports: ReportsPorts;
  readonly #nodeToWatched = new Map<string, Watched>();

  constructor(ports: ReportsPorts) {
    this.#ports = ports;
  }

  /** Takes how a node's state has changed. Answers whether its report is awaited from now on. */
  follow(node: string, before: NodeState, after: NodeState): boolean {
    if (after.outSince === null) this.forget(node);
    else if (before.outSince === null) this.#note(node);
    const watched = this.#nodeToWatched.get(node);
    if (watched === undefined || isReturning(before) === isReturning(after)) return false;
    watched.isAwaited = isReturning(after);
    this.#plan(node, watched, this.#chooseDelay(watched));
    return watched.isAwaited;
  }

  /** What its Lease says now is no news later. */
  #note(node: string): void {
    const watched = { renewal: undefined, readAt: 0, repeats: 0, isAwaited: false, cancel: () => undefined };
    this.#nodeToWatched.set(node, watched);
    this.#plan(node, watched, this.#ports.random() * spreadMs);
  }

  /** Ends what is in progress for a node. */
  forget(node: string): void {
    this.#nodeToWatched.get(node)?.cancel();
    this.#nodeToWatched.delete(node);
  }

  /** Forgets all nodes. */
  stop(): void {
    for (const node of [...this.#nodeToWatched.keys()]) this.forget(node);
  }

  #chooseDelay({ isAwaited, repeats }: Watched): number {
    const { paceMs, random } = this.#ports;
    if (isAwaited) return paceMs() * (0.5 + random() / 2);
    return backOff(repeats, leaseDurationMs, refreshMs) + random() * spreadMs;
  }

  #plan(node: string, watched: Watched, delayMs: number): void {
    watched.cancel();
    watched.cancel = this.#ports.clock.schedule(delayMs, () => void this.#read(node, watched));
  }

  async #read(node: string, watched: Watched): Promise<void> {
    const [read] = await Promise.allSettled([this.#ports.readRenewal(node)]);
    if (this.#nodeToWatched.get(node) !== watched) return;
    if (read.status === 'fulfilled') this.#take(node, watched, read.value);
    this.#plan(node, watched, this.#chooseDelay(watched));
  }

  #take(node: string, watched: Watched, renewal: string | null): void {
    const { clock, onLease } = this.#ports;
    const before = watched.renewal;
    if (renewal === before) {
      watched.repeats += watched.isAwaited ? 0 : 1;
      if (clock.now() - watched.readAt >= leaseDurationMs) onLease(node, 'expired');
      return;
    }
    Object.assign(watched, { renewal, readAt: clock.now(), repeats: 0 });
    if (before === undefined || renewal === null) return;
    watched.isAwaited = false;
    onLease(node, 'renewed');
  }
}
