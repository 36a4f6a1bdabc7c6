/** Asks other nodes whether they live, for as long as this node sends connections to their pods. */
import { type Endpoint } from '../../lib/address/endpoint.ts';
import { type Cancel } from '../../lib/control/clock.ts';
import { type ConnectOutcome } from '../../lib/probe/connect.ts';
import { type SilentNode } from '../../lib/services/node-report.ts';
import { noOutages, type NodeOutages } from '../decide/node-outages.ts';
import { type DirectoryPorts, NodeDirectory } from './node-directory.ts';
import { type NodeListener } from './node-listener.ts';
import { NodeReports, type ReportsPorts } from './node-reports.ts';
import {
  addAnswer,
  addReport,
  hasNeverAnswered,
  hasWitness,
  isUndecided,
  isUsedAlike,
  type NodeState,
  unknownNode,
} from './node-state.ts';
import {
  listOthers,
  listOutages,
  listSilentNodes,
  listUnheard,
  type Target,
  withState,
} from './node-target.ts';
import { type ProbePace, ProbeTurns } from './probe-turns.ts';

/** What it needs of the world. */
export interface NodeHealthPorts
  extends Omit<DirectoryPorts, 'onChange' | 'onProblem'>, Pick<ReportsPorts, 'readRenewal'> {
  /** Connects once, and sends nothing. Never rejects; answers after the limit at the latest. */
  readonly connect: (endpoint: Endpoint, limitMs: number) => Promise<ConnectOutcome>;
  /** Where nodes are asked; 0 asks nobody. */
  readonly port: number;
  /** The name of this node. It is not asked. */
  readonly node: string;
  readonly report: NodeListener;
  /** Called when `outages` has changed. */
  readonly onChange: () => void;
}

/** A node that is alive answers in a millisecond, whatever its load. Two of these and an interval are less than the 0.8 s of a promise. */
const connectMs = 200;

/** A node that holds addresses gets connections from everywhere. */
const holderPace: ProbePace = { intervalMs: 250, perSecond: 400 };

/** Any other one knows by this who answers at all, for when addresses come to it; and it has clients of its own. */
const idlePace: ProbePace = { intervalMs: 5000, perSecond: 20 };

/** So many are asked, where there are, also without endpoints: they are witnesses. */
const leastAsked = 4;

/** How often the Lease of a node is read whose report is awaited. With 1,000 nodes that hold no address, that is 100 reads a second. */
const holderReadMs = 1000;
const idleReadMs = 10_000;

/** From `start` to `stop`. */
export class NodeHealth {
  readonly #ports: NodeHealthPorts;
  readonly #directory: NodeDirectory;
  readonly #turns: ProbeTurns;
  readonly #reports: NodeReports;
  readonly #nodeToTarget = new Map<string, Target>();
  #used: ReadonlySet<string> = new Set();
  #outages = noOutages;
  #probes = 0;
  #isHolding = false;
  #cancel: Cancel = () => undefined;
  #isStopped = false;

  constructor(ports: NodeHealthPorts) {
    this.#ports = ports;
    this.#turns = new ProbeTurns(ports.random, idlePace);
    this.#reports = new NodeReports({
      ...ports,
      paceMs: () => (this.#isHolding ? holderReadMs : idleReadMs),
      onReport: (node) => {
        this.#change(node, (state) => addReport(state, ports.clock.now()));
      },
    });
    this.#directory = new NodeDirectory({
      ...ports,
      onChange: () => {
        this.#choose();
      },
      onProblem: (error) => {
        ports.report.unlisted(error);
      },
    });
  }

  /** The nodes that do not answer. The same object while nothing has changed. */
  get outages(): NodeOutages {
    return this.#outages;
  }

  /** The same for people, sorted. */
  get silent(): readonly SilentNode[] {
    return listSilentNodes(this.#nodeToTarget);
  }

  /** The nodes that have not answered since they are asked, and where they were asked: `w1 (10.0.0.21:10256)`, sorted. They stay in use. */
  get unheard(): readonly string[] {
    return listUnheard(this.#nodeToTarget, this.#ports.port);
  }

  /** How many nodes are asked, and how many connects were begun. */
  get counts(): { readonly asked: number; readonly probes: number } {
    return { asked: this.#nodeToTarget.size, probes: this.#probes };
  }

  /** Begins. Not to be called twice. */
  start(): void {
    if (this.#ports.port > 0) this.#directory.start();
  }

  /** Asks nobody any more. The outages stay. */
  stop(): void {
    this.#isStopped = true;
    this.#cancel();
    this.#reports.stop();
    this.#directory.stop();
  }

  /** Takes the nodes that have endpoints of Services which this node balances. */
  watch(nodes: ReadonlySet<string>): void {
    if (this.#ports.port === 0 || nodes === this.#used) return;
    this.#used = nodes;
    this.#choose();
  }

  /** Takes whether this node holds addresses: then it asks more often. */
  setHolding(isHolding: boolean): void {
    this.#isHolding = isHolding;
    const pace = isHolding ? holderPace : idlePace;
    if (!this.#turns.setPace(pace, this.#ports.clock.now())) return;
    this.#plan();
  }

  /** Asks the nodes in use whose address is known, and some more where these are few. */
  #choose(): void {
    const { addresses } = this.#directory;
    const { node: own, clock } = this.#ports;
    const needed = new Set([...this.#used].filter((node) => node !== own));
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
      this.#nodeToTarget.set(node, isSame ? known : { address, state: unknownNode, silentSince: '' });
    }
    for (const [node, known] of before)
      if (this.#nodeToTarget.get(node) !== known) this.#reports.forget(node);
    this.#turns.setNodes(new Set(this.#nodeToTarget.keys()), clock.now());
    this.#noteOutages();
    this.#plan();
  }

  #plan(): void {
    this.#cancel();
    const { clock } = this.#ports;
    const { dueAt } = this.#turns;
    if (this.#isStopped || dueAt === Infinity) return;
    this.#cancel = clock.schedule(Math.max(0, dueAt - clock.now()), () => {
      const node = this.#turns.take(clock.now());
      if (node !== null) void this.#ask(node);
      this.#plan();
    });
  }

  async #ask(node: string): Promise<void> {
    const { clock, connect, port } = this.#ports;
    const target = this.#nodeToTarget.get(node);
    if (target === undefined) return;
    const { address, state } = target;
    const askedAt = clock.now();
    const isSilent = state.history.consecutiveTimeouts > 0;
    const wasWitnessed = isSilent && hasWitness(state, listOthers(this.#nodeToTarget, node));
    this.#probes += 1;
    const endpoint = { family: address.family, address: address.text, port };
    const { kind } = await connect(endpoint, connectMs);
    const now = this.#nodeToTarget.get(node);
    if (this.#isStopped || now === undefined) return;
    // One that could not be tried says nothing, and neither does the address before.
    if (kind !== 'untried' && now.address.text === address.text) {
      const isHeard = kind === 'open' || kind === 'refused';
      const answer = { isHeard, askedAt, wasWitnessed };
      this.#change(node, (before) => addAnswer(before, answer, clock.now()));
    }
    const isDoubtful = isUndecided(this.#nodeToTarget.get(node)?.state ?? state);
    this.#turns.ended(node, { askedAt, isDoubtful });
    this.#plan();
  }

  #change(node: string, change: (state: NodeState) => NodeState): void {
    const { report } = this.#ports;
    const before = this.#nodeToTarget.get(node);
    if (before === undefined) return;
    const after = change(before.state);
    this.#nodeToTarget.set(
      node,
      withState(before, after, (atMs) => this.#toText(atMs)),
    );
    if (after.history.consecutiveTimeouts === 1) this.#hurryWitness(node);
    if (hasNeverAnswered(after) && !hasNeverAnswered(before.state)) report.neverAnswers(node, before.address);
    if (this.#reports.follow(node, before.state, after)) report.returns(node);
    if (isUsedAlike(before.state, after)) return;
    this.#tell(node, before, after);
    this.#noteOutages();
  }

  #toText(atMs: number): string {
    const { clock } = this.#ports;
    return new Date(clock.date().getTime() - (clock.now() - atMs)).toISOString();
  }

  #tell(node: string, { address, state: before }: Target, after: NodeState): void {
    const { clock, report } = this.#ports;
    if (before.outSince === null && after.outSince !== null) {
      report.out(node, address);
      this.#directory.doubt();
    }
    if (!before.isLost && after.isLost) report.lost(node);
    if (before.outSince !== null && after.outSince === null) report.back(node, clock.now() - before.outSince);
  }

  /** Asks whoever was heard last: silence counts when somebody has answered since it began. */
  #hurryWitness(node: string): void {
    const others = [...this.#nodeToTarget].filter(([other]) => other !== node);
    const heardAt = ([, { state }]: (typeof others)[number]) => state.history.heardAt;
    const [best] = others.sort((one, other) => heardAt(other) - heardAt(one));
    if (best !== undefined) this.#turns.hurry(best[0], this.#ports.clock.now());
  }

  #noteOutages(): void {
    const outages = listOutages(this.#nodeToTarget, this.#outages);
    if (outages === this.#outages) return;
    this.#outages = outages;
    this.#ports.onChange();
  }
}
