import type { ApiRoute } from '../../lib/kubernetes/route.ts';
import type { Logger } from '../../lib/telemetry/log.ts';
import { createLister } from '../../lib/kubernetes/list-watch.ts';
import { systemClock, systemRandom, type Random, type Cancel, Rounds, toDate } from '../../lib/clock.ts';
import { toLeaseResource, type UnresponsiveNode } from '../../lib/api/node.ts';
import {
  type NodeState,
  isUnheard,
  isReturning,
  type DirectoryPorts,
  type ReportsPorts,
  NodeDirectory,
  NodeReports,
  addLease,
  unknownNode,
  judgePeers,
  addAnswer,
  isUndecided,
  isUsedAlike,
} from './directory.ts';
import { parseAddress, type Address, formatEndpoint, type Endpoint } from '../../lib/net.ts';
import { connectOnce, type ConnectOutcome } from '../../lib/http/client.ts';
import { formatAge } from '../../lib/text.ts';
import { findErrorCode } from '../../lib/errors.ts';
import { type NodeOutages, noOutages } from '../services/backends.ts';
import { isDeepStrictEqual } from 'node:util';

interface NodeHealthOptions extends Pick<NodeHealthPorts, 'logger' | 'node' | 'onChange' | 'readRenewal'> {
  readonly route: ApiRoute;
  /** Of the Leases. */
  readonly namespace: string;
  /** Where nodes are asked; 0 asks nobody. */
  readonly probePort: number;
  /** Ends what is in progress at the API. */
  readonly signal: AbortSignal;
  /** At which other nodes reach this one. */
  readonly listAddresses: () => readonly string[];
}

/** Asks the other nodes of this host's cluster, over its network. */
export function createNodeHealth(options: NodeHealthOptions): NodeHealth {
  const { route, namespace, probePort: port, signal, listAddresses, ...ports } = options;
  const list = createLister(route, systemClock, signal);
  return new NodeHealth({
    ...{ ...ports, clock: systemClock, random: systemRandom, port },
    listLeases: () => list(toLeaseResource(namespace)),
    families: () => new Set(listAddresses().flatMap((text) => parseAddress(text)?.family ?? [])),
    // Hundreds a second would leave as many ports in TIME_WAIT. kube-proxy does not log a reset.
    connect: (endpoint, limitMs) => connectOnce(systemClock, endpoint, { limitMs, end: 'reset' }),
  });
}

/** Who asks other nodes whether they live. */
export type NodeWatch = Pick<NodeHealth, 'outages' | 'watch'>;

interface Target {
  readonly address: Address;
  readonly state: NodeState;
  /** Since when it is out, as in ISO 8601; empty while it is not. */
  readonly unresponsiveSince: string;
  /** Where it answered last; all that it may answer at where it did not. */
  readonly ports: readonly number[];
}

/** The nodes that are out, those that are lost and do not answer, and those that never answered. The same object as before where nothing has changed. */
function listOutages(targets: ReadonlyMap<string, Target>, before: NodeOutages): NodeOutages {
  const list = (isChosen: (state: NodeState) => boolean) =>
    new Set([...targets].flatMap(([node, { state }]) => (isChosen(state) ? [node] : [])));
  const outages = {
    out: list(({ outSince }) => outSince !== null),
    // What is still open when a node answers again stays open, whether it has started again or not: its host handles that.
    lost: list((state) => state.isLost && !isReturning(state)),
    unheard: list(isUnheard),
  };
  return isDeepStrictEqual(outages, before) ? before : outages;
}

/** How often nodes are asked. */
export interface ProbePace {
  /** From one connect to a node to the next. */
  readonly intervalMs: number;
  /** To all nodes together: with more nodes the interval grows. */
  readonly perSecond: number;
}

/** A node of which something is doubtful is asked again after this, whatever the pace. */
const uncertainMs = 200;

/** The time between two connects grows or shrinks by this part, at most: nodes that start together are not asked together. */
const jitter = 0.1;

/** Never lets more begin than the pace allows, in any second: one after the other, and what was missed is not made up for. */
export class ProbeTurns {
  readonly #random: Random;
  /** When each is due; Infinity while it is being asked. */
  readonly #nodeToDueAt = new Map<string, number>();
  #pace: ProbePace;
  #freeAt = -Infinity;

  constructor(random: Random, pace: ProbePace) {
    this.#random = random;
    this.#pace = pace;
  }

  /** When the next connect may begin; Infinity while nobody waits for one. */
  get dueAt(): number {
    return Math.max(this.#freeAt, Math.min(...[Infinity, ...this.#nodeToDueAt.values()]));
  }

  /** Asks these from now on, and nobody else: new ones within an interval. */
  setNodes(nodes: ReadonlySet<string>, now: number): void {
    for (const node of this.#nodeToDueAt.keys()) if (!nodes.has(node)) this.#nodeToDueAt.delete(node);
    for (const node of nodes)
      if (!this.#nodeToDueAt.has(node)) this.#nodeToDueAt.set(node, now + this.#random() * uncertainMs);
  }

  /** Asks at a pace: all within its interval. Answers whether it is another one than before. */
  setPace(pace: ProbePace, now: number): boolean {
    if (pace === this.#pace) return false;
    this.#pace = pace;
    const latest = now + this.#intervalMs;
    for (const [node, dueAt] of this.#nodeToDueAt)
      if (dueAt !== Infinity && dueAt > latest)
        this.#nodeToDueAt.set(node, now + this.#random() * this.#intervalMs);
    return true;
  }

  /** Answers who is to be asked now, and counts it as begun; null where nobody is. `ended` is to be called for it. */
  take(now: number): string | null {
    if (this.dueAt > now) return null;
    const [node] = [...this.#nodeToDueAt].reduce((first, one) => (one[1] < first[1] ? one : first));
    this.#nodeToDueAt.set(node, Infinity);
    this.#freeAt = now + 1000 / this.#pace.perSecond;
    return node;
  }

  /** A node was asked, and is due again: soon if something is doubtful. */
  ended(
    node: string,
    { askedAt, isDoubtful }: { readonly askedAt: number; readonly isDoubtful: boolean },
  ): void {
    if (!this.#nodeToDueAt.has(node)) return;
    const restMs = isDoubtful ? Math.min(uncertainMs, this.#intervalMs) : this.#intervalMs;
    this.#nodeToDueAt.set(node, askedAt + restMs * (1 - this.#random() * jitter));
  }

  /** Asks a node now, unless it is being asked. */
  hurry(node: string, now: number): void {
    const dueAt = this.#nodeToDueAt.get(node) ?? Infinity;
    if (dueAt !== Infinity) this.#nodeToDueAt.set(node, Math.min(dueAt, now));
  }

  get #intervalMs(): number {
    const { intervalMs, perSecond } = this.#pace;
    return Math.max(intervalMs, (this.#nodeToDueAt.size * 1000) / perSecond);
  }
}

interface NodeHealthPorts
  extends Omit<DirectoryPorts, 'onChange' | 'onProblem'>, Pick<ReportsPorts, 'readRenewal'> {
  /** Connects once, and sends nothing. Never rejects; answers after the limit at the latest. */
  readonly connect: (endpoint: Endpoint, limitMs: number) => Promise<ConnectOutcome>;
  /** Where nodes are asked; 0 asks nobody. */
  readonly port: number;
  /** The name of this node. It is not asked. */
  readonly node: string;
  readonly logger: Logger;
  /** Called when `outages` or `isAcquainted` has changed. */
  readonly onChange: () => void;
}

/** A node that is alive answers in a millisecond, whatever its load. Two of these and an interval are less than the 0.8 s of a promise. */
const connectMs = 200;

/** A node that holds addresses gets connections from everywhere. */
const activePace: ProbePace = { intervalMs: 250, perSecond: 400 };

/** Any other one knows by this who answers at all, for when addresses come to it; and it has clients of its own. */
const idlePace: ProbePace = { intervalMs: 5000, perSecond: 20 };

/**
 * Nobody listens there since Kubernetes 1.23: it was the insecure one of kube-scheduler. A refusal needs no program. Connects to a port of a program
 * that hangs are in the queue of its listener, also after a reset. The kernel answers only until that is full.
 */
const closedPort = 10_251;

/**
 * A node that has just started waits so long to know who answers. Lists of Leases, and a connect to each of 1,000 nodes, take less. If all nodes
 * start at the same time, or the API is away, some node has to hold addresses.
 */
const acquaintMs = 5000;

/** At least so many are asked, if there are, also without endpoints: their answers show that this host's network works. */
const leastAsked = 4;

/** How often the Lease of a node is read whose report is awaited. With 1,000 nodes that hold no address, that is 100 reads a second. */
const activeReadMs = 1000;
const idleReadMs = 10_000;

/** Asks other nodes whether they live, for as long as this node sends connections to their pods. From `start` to `stop`. */
export class NodeHealth {
  readonly #ports: NodeHealthPorts;
  readonly #directory: NodeDirectory;
  readonly #turns: ProbeTurns;
  readonly #reports: NodeReports;
  readonly #nodeToTarget = new Map<string, Target>();
  /** Null before the first `watch`. */
  #used: ReadonlySet<string> | null = null;
  #outages = noOutages;
  #probes = 0;
  #isHolding = false;
  #isAcquainted: boolean;
  readonly #rounds: Rounds;
  #cancelWait: Cancel = () => undefined;

  constructor(ports: NodeHealthPorts) {
    this.#ports = ports;
    this.#isAcquainted = ports.port === 0;
    this.#turns = new ProbeTurns(ports.random, activePace);
    const findDelay = () => (this.#turns.dueAt === Infinity ? null : this.#turns.dueAt - ports.clock.now());
    this.#rounds = new Rounds(ports.clock, this.#askNext.bind(this), findDelay);
    this.#reports = new NodeReports({
      ...ports,
      paceMs: () => (this.#isHolding ? activeReadMs : idleReadMs),
      onLease: (node, news) => {
        this.#change(node, (state) => addLease(state, news, ports.clock.now()));
      },
    });
    this.#directory = new NodeDirectory({
      ...ports,
      onChange: this.#choose.bind(this),
      onProblem: (error) => {
        this.#logListing(error);
        this.#noteAcquainted();
      },
    });
  }

  /** The nodes that do not answer. The same object while nothing has changed. */
  get outages(): NodeOutages {
    return this.#outages;
  }

  /** Whether each node was asked once, or five seconds have passed: one that holds addresses before may send clients to a dead node for a minute. */
  get isAcquainted(): boolean {
    return this.#isAcquainted;
  }

  /** The same for people, sorted. */
  get unresponsive(): readonly UnresponsiveNode[] {
    return [...this.#nodeToTarget]
      .flatMap(([node, { unresponsiveSince: since }]) => (since === '' ? [] : [{ node, since }]))
      .sort((one, other) => (one.node < other.node ? -1 : 1));
  }

  /** The nodes that do not answer and are in use all the same, see `isUnheard`, and where they were asked: `w1 (10.0.0.21:10256)`, sorted. */
  get unheard(): readonly string[] {
    return [...this.#nodeToTarget]
      .filter(([, { state }]) => isUnheard(state))
      .map(([node, { address }]) => `${node} (${formatEndpoint(this.#toEndpoint(address))})`)
      .sort();
  }

  /** How many nodes are asked, and how many connects were begun. */
  get counts(): { readonly asked: number; readonly probes: number } {
    return { asked: this.#nodeToTarget.size, probes: this.#probes };
  }

  /** Begins. Not to be called twice. */
  start(): void {
    if (this.#ports.port === 0) return;
    this.#directory.start();
    const settle = this.#noteAcquainted.bind(this, { isOver: true });
    this.#cancelWait = this.#ports.clock.schedule(acquaintMs, settle);
  }

  /** Asks nobody any more. The outages stay. */
  stop(): void {
    void this.#rounds.stop();
    this.#cancelWait();
    this.#reports.stop();
    this.#directory.stop();
  }

  /** Takes the nodes that have endpoints of Services which this node balances. */
  watch(nodes: ReadonlySet<string>): void {
    if (nodes === this.#used) return;
    this.#used = nodes;
    if (this.#ports.port === 0) this.#noteOutages({ ...noOutages, unheard: nodes });
    else this.#choose();
  }

  /** Takes whether this node holds addresses: then it asks more often. */
  setHolding(isHolding: boolean): void {
    this.#isHolding = isHolding;
    this.#choosePace();
  }

  #choosePace(): void {
    const pace = this.#isHolding || !this.#isAcquainted ? activePace : idlePace;
    if (!this.#turns.setPace(pace, this.#ports.clock.now())) return;
    this.#rounds.plan();
  }

  #noteAcquainted({ isOver } = { isOver: false }): void {
    if (this.#isAcquainted) return;
    const isAsked = ({ state }: Target) => state.history.connect !== 'unknown';
    const isKnown = this.#used !== null && this.#directory.isListed;
    if (!isOver && !(isKnown && [...this.#nodeToTarget.values()].every(isAsked))) return;
    this.#isAcquainted = true;
    this.#cancelWait();
    this.#choosePace();
    this.#ports.onChange();
  }

  /** Asks the nodes in use whose address is known, and some more where these are few. */
  #choose(): void {
    const { addresses } = this.#directory;
    const { node: own, clock } = this.#ports;
    const needed = new Set([...(this.#used ?? [])].filter((node) => node !== own));
    this.#directory.want(needed);
    const chosen = [...needed].filter((node) => addresses.has(node));
    const others = [...addresses.keys()].filter((node) => node !== own && !needed.has(node)).sort();
    if (chosen.length > 0) chosen.push(...others.slice(0, Math.max(0, leastAsked - chosen.length)));
    const before = new Map(this.#nodeToTarget);
    this.#nodeToTarget.clear();
    for (const node of chosen) {
      const address = addresses.get(node);
      if (address === undefined) continue;
      const known = before.get(node);
      const isSame = known?.address.text === address.text;
      const ports = [closedPort, this.#ports.port];
      // Another node that holds addresses has seen it answer, and then no more.
      const state = { ...unknownNode, hasAnswered: this.#directory.named.has(node) };
      const unknown = { address, state, unresponsiveSince: '', ports };
      this.#nodeToTarget.set(node, isSame ? known : unknown);
    }
    for (const [node, known] of before)
      if (this.#nodeToTarget.get(node) !== known) this.#reports.forget(node);
    this.#turns.setNodes(new Set(this.#nodeToTarget.keys()), clock.now());
    this.#noteOutages();
    this.#noteAcquainted();
    this.#rounds.plan();
  }

  /** Several are asked at the same time. */
  #askNext(): Promise<void> {
    const node = this.#turns.take(this.#ports.clock.now());
    if (node !== null) void this.#ask(node);
    return Promise.resolve();
  }

  async #ask(node: string): Promise<void> {
    const { clock } = this.#ports;
    const target = this.#nodeToTarget.get(node);
    if (target === undefined) return;
    const { address, state } = target;
    const askedAt = clock.now();
    const isUnresponsive = state.history.consecutiveTimeouts > 0;
    const peers = isUnresponsive ? judgePeers(state, this.#listOthers(node)) : 'awaited';
    const { kind, ports } = await this.#connect(target);
    const now = this.#nodeToTarget.get(node);
    if (this.#rounds.isStopped || now === undefined) return;
    // One that could not be tried says nothing, and neither does the address before.
    if (kind !== 'untried' && now.address.text === address.text) {
      this.#nodeToTarget.set(node, { ...now, ports });
      const isAnswered = ['open', 'refused'].includes(kind);
      const answer = { isAnswered, askedAt, peers: isAnswered ? peers : this.#limit(node, peers) };
      this.#change(node, (before) => addAnswer(before, answer, clock.now()));
    }
    const isDoubtful = isUndecided(this.#nodeToTarget.get(node)?.state ?? state);
    this.#turns.ended(node, { askedAt, isDoubtful });
    this.#noteAcquainted();
    this.#rounds.plan();
  }

  /** Asks at all ports that it may answer at. A refusal is preferred: it fills no queue. */
  async #connect({ address, ports }: Target) {
    this.#probes += ports.length;
    const ask = async (port: number) => {
      const { kind } = await this.#ports.connect({ ...this.#toEndpoint(address), port }, connectMs);
      return { kind, ports: [port] };
    };
    const asked = await Promise.all(ports.map(ask));
    const find = (kind: ConnectOutcome['kind']) => asked.find((one) => one.kind === kind);
    const answer = find('refused') ?? find('open');
    const kind = find('untried')?.kind ?? 'silent';
    return answer ?? { kind, ports: [closedPort, this.#ports.port] };
  }

  #change(node: string, change: (state: NodeState) => NodeState): void {
    const { logger } = this.#ports;
    const before = this.#nodeToTarget.get(node);
    if (before === undefined) return;
    const after = change(before.state);
    const unresponsiveSince =
      after.outSince === null
        ? ''
        : before.unresponsiveSince || toDate(this.#ports.clock, after.outSince).toISOString();
    this.#nodeToTarget.set(node, { ...before, state: after, unresponsiveSince });
    if (after.history.consecutiveTimeouts === 1) this.#probePeerSoon(node);
    if (isUnheard(after) && !isUnheard(before.state)) this.#logUnheard(node, before);
    // It is not back: it may have started again.
    if (this.#reports.follow(node, before.state, after))
      logger.info(
        `node ${node} answers again. It may have started again, so its pods get connections after its balancer has reported, or after a minute`,
      );
    if (isUsedAlike(before.state, after) && isUnheard(after) === isUnheard(before.state)) return;
    this.#notify(node, before, after);
    this.#noteOutages();
  }

  /**
   * If half of the nodes are out, the own one counted, and more do not answer, the cause is rather between nodes than at each of them (Envoy's
   * panic threshold is the same half): these stay in use. Of a node whose Lease has expired, or that answers again, the cause is known: it does
   * not count. At most half of all lose their open connections: Leases may expire because the API takes no writes.
   */
  #limit(node: string, peers: ReturnType<typeof judgePeers>): typeof peers {
    const { state } = this.#nodeToTarget.get(node) ?? { state: unknownNode };
    const others = this.#listOthers(node);
    const lost = others.filter(({ isLost }) => isLost).length;
    const out = others.filter((one) => one.outSince !== null && !one.isLost && !isReturning(one)).length;
    const toHalf = (count: number) => Math.floor((count + 2) / 2);
    if (state.outSince !== null) return lost < toHalf(others.length) ? peers : 'none';
    if (out < toHalf(others.length - lost)) return peers;
    if (state.hasAnswered && state.history.consecutiveTimeouts === 1)
      this.#ports.logger.warn(
        `node ${node} does not answer either. Half of the nodes are out, so its pods stay in use`,
      );
    return 'awaited';
  }

  #listOthers(node: string): NodeState[] {
    return [...this.#nodeToTarget].flatMap(([other, { state }]) => (other === node ? [] : [state]));
  }

  #notify(node: string, { address, state: before }: Target, after: NodeState): void {
    const { clock, logger } = this.#ports;
    if (before.outSince === null && after.outSince !== null) {
      logger.warn(
        `node ${node} (${address.text}) does not answer: its pods get no new connection from this node`,
      );
      this.#directory.reloadSoon();
    }
    if (!before.isLost && after.isLost)
      logger.warn(
        `node ${node} still does not answer, and its Lease has expired: open connections to its pods are forgotten`,
      );
    if (before.outSince === null || after.outSince !== null) return;
    const age = formatAge(clock.now() - before.outSince);
    logger.info(`node ${node} is in use again after ${age}: its pods get connections`);
  }

  #toEndpoint({ family, text: address }: Address): Endpoint {
    return { family, address, port: this.#ports.port };
  }

  #logUnheard(node: string, { address, state }: Target): void {
    const { logger, port } = this.#ports;
    const place = formatEndpoint(this.#toEndpoint(address));
    const why = state.lease === 'renewed' ? 'but its balancer reports' : 'and never has';
    logger.warn(
      `node ${node} does not answer at ${place}, ${why}: a firewall may drop what is sent there. If this node dies, its pods stay in use until Kubernetes marks them as not ready. Let TCP port ${port} pass between nodes, or choose another port by --node-probe-port`,
    );
  }

  #logListing(error: unknown): void {
    const { logger } = this.#ports;
    if (error === null) logger.info('vipnat can list the Leases of nodes again');
    else
      logger.warn(
        `vipnat does not learn where other nodes are: ${(error as Error).message}. If such a node dies, its pods stay in use until Kubernetes marks them as not ready`,
        { code: findErrorCode(error) },
      );
  }

  /** Asks the node that answered last: missing answers count when another node has answered since they began. */
  #probePeerSoon(node: string): void {
    const others = [...this.#nodeToTarget].filter(([other]) => other !== node);
    const reachedAt = ([, { state }]: (typeof others)[number]) => state.history.reachedAt;
    const [best] = others.sort((one, other) => reachedAt(other) - reachedAt(one));
    if (best !== undefined) this.#turns.hurry(best[0], this.#ports.clock.now());
  }

  #noteOutages(outages = listOutages(this.#nodeToTarget, this.#outages)): void {
    if (outages === this.#outages) return;
    this.#outages = outages;
    this.#ports.onChange();
  }
}
