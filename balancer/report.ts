import type { BalancerKernel } from '../lib/kernel/kernel.ts';
import {
  maxApiVips,
  type NodeMode,
  type DrainingEndpoint,
  toLeaseResource,
  toLeaseName,
  type NodeReport,
  leaseDurationMs,
  toAnnotations,
  type AwaitedVersion,
  isProgrammed,
  type NodeStates,
} from '../lib/api/node.ts';
import { forwardChain, parseSave, isOwnChain } from '../lib/iptables/rules.ts';
import { ownTable, type SaveOutput } from '../lib/kernel/port.ts';
import { families } from '../lib/net.ts';
import { readNftVips } from '../lib/nft/vip-rules.ts';
import { parseNftTable } from '../lib/nft/table.ts';
import { readVip } from '../lib/iptables/vip-rules.ts';
import type { NodeOutages } from './services/backends.ts';
import type { ErrorCode } from '../lib/errors.ts';
import type { Logger } from '../lib/telemetry/log.ts';
import type { ObjectClient, ObjectWrite } from '../lib/kubernetes/writes.ts';
import * as z from 'zod/mini';
import { objectVersion } from '../lib/kubernetes/client.ts';
import { reportAnnotations, apiGroup, type AbsentNode } from '../lib/api/vipnat.ts';
import {
  type Clock,
  type Budget,
  type Bucket,
  fillBucket,
  takeToken,
  backOff,
  toMicroTime,
  Rounds,
} from '../lib/clock.ts';
import { isDeepStrictEqual } from 'node:util';

/**
 * Finds the virtual IPs of the Kubernetes API on this node: rules of `vipnat run` name them, also while it does not run. The balancer reads
 * iptables' tables `filter` anyway, and these have a rule for each. A place that cannot be read keeps what it had.
 */
export class ApiVips {
  readonly #kernel: BalancerKernel;
  readonly #onChange: () => void;
  /** Tables to the addresses that their rules name. */
  readonly #placeToAddresses = new Map<string, readonly string[]>();

  /** `onChange` is called when `addresses` differ from before. */
  constructor(kernel: BalancerKernel, onChange: () => void) {
    this.#kernel = kernel;
    this.#onChange = onChange;
  }

  /** Their addresses, as canonical text; sorted, and no more than a report has. */
  get addresses(): readonly string[] {
    const all = [...this.#placeToAddresses.values()].flat();
    return [...new Set(all)].sort().slice(0, maxApiVips);
  }

  /** The same kernel; each table `filter` that is read is looked through, and then the agent's own table of nftables. */
  get kernel(): BalancerKernel {
    return {
      ...this.#kernel,
      readFilter: async (family, dialect, chains) => {
        const output = await this.#kernel.readFilter(family, dialect, [...chains, forwardChain]);
        this.#note(`${family} ${dialect}`, output === null ? [] : listFiltered(output));
        if (dialect === 'nft') await this.#readOwnTables();
        return output;
      },
    };
  }

  async #readOwnTables(): Promise<void> {
    try {
      const handles = await this.#kernel.readHandles(ownTable);
      for (const family of families) {
        const text = handles[family] === null ? '' : await this.#kernel.listOwnTable(family);
        const found = readNftVips(parseNftTable({ family, text }));
        const addresses = found.map(({ address }) => address);
        this.#note(`${family} nftables`, addresses);
      }
    } catch {
      // What fails here fails where the tables are written, and is reported there.
    }
  }

  #note(place: string, addresses: readonly string[]): void {
    const before = this.addresses.join();
    this.#placeToAddresses.set(place, addresses);
    if (this.addresses.join() !== before) this.#onChange();
  }
}

function listFiltered(output: SaveOutput): string[] {
  const chains = [...(parseSave(output).tables.get('filter') ?? [])].filter(([name]) => isOwnChain(name));
  return chains.flatMap(([, rules]) => rules.flatMap((rule) => readVip(rule)?.address ?? []));
}

/** How a balancer does: what it knows itself. `kept` has no node that never answered. */
export interface BalancerProgress extends Readonly<Pick<NodeStates, 'zone' | 'endings' | 'kept'>> {
  /** Services that have rules in the tables. */
  readonly services: number;
  readonly elements: number;
  /** Services that are kube-proxy's although nobody asks for that. */
  readonly left: readonly string[];
  /** Whether all kinds of objects were listed, and are watched. */
  readonly isFollowing: boolean;
  /** Each kind of objects, to whether it is not lost. */
  readonly kinds: ReadonlyMap<string, boolean>;
  /** Objects that cannot be read, and are left out. */
  readonly unreadable: readonly { readonly kind: string; readonly object: string }[];
  /** When the last sync succeeded; null before. */
  readonly syncedAt: Date | null;
  /** Whether no controller leads, see `ControllerWatch`. */
  readonly isControllerAway: boolean;
  /** Memories of clients and connections to which part of each is used, the fullest ten first. None where the kernel does not tell. */
  readonly memories: ReadonlyMap<string, number>;
  /** For how long the sync in progress has lasted, or the next one is overdue. */
  readonly behindMs: number;
}

/** The same with what others know: what its metrics and probes say. */
export interface BalancerState extends BalancerProgress {
  /** Null before the first sync. */
  readonly mode: NodeMode | null;
  /** The seats that this node may hold: `POOL/INDEX`. */
  readonly seats: readonly string[];
  readonly held: readonly string[];
  readonly inUse: readonly string[];
  /** Whether keepalived looks if the balancer runs; null where that is not known. */
  readonly isWatched: boolean | null;
  readonly draining: readonly DrainingEndpoint[];
  readonly counts: BalancerCounter['counts'];
  readonly outages: NodeOutages;
  /** Nodes that never answered this one, and where they were asked; they stay in use. */
  readonly unheard: readonly string[];
  /** How many nodes are asked whether they live, and how often that was done. */
  readonly nodes: { readonly asked: number; readonly probes: number };
}

/** Counts what a balancer has done since its start. How long a change took is for `time`, in seconds. */
export class BalancerCounter {
  readonly #time: (seconds: number) => void;
  readonly counts = { changes: 0, repairs: 0, failures: new Map<ErrorCode, number>() };

  constructor(time: (seconds: number) => void) {
    this.#time = time;
  }

  /** Changes of so many Services are in the kernel, so long after the first event of them. */
  programmed(services: number, tookMs: number): void {
    this.counts.changes += services;
    this.#time(tookMs / 1000);
  }

  /** A table that another program had changed or removed is written again. */
  repaired(): void {
    this.counts.repairs += 1;
  }

  failed(code: ErrorCode): void {
    this.counts.failures.set(code, (this.counts.failures.get(code) ?? 0) + 1);
  }
}

interface LeasePlace {
  readonly client: ObjectClient;
  /** As the API names this node. */
  readonly node: string;
  /** Of vipnat's objects. */
  readonly namespace: string;
}

/** An apiserver answers in milliseconds. */
const limitMs = 4000;

/** A write after a conflict reads again; whoever else writes this Lease does it once. */
const maxTries = 3;

const stored = z.object({
  metadata: z.object({
    resourceVersion: objectVersion,
    annotations: z.nullish(z.record(z.string(), z.string())),
  }),
});

/** Writes one node's Lease, and makes it where there is none. One write at a time. */
class LeaseWriter {
  readonly #place: LeasePlace;
  readonly #collection: string;
  readonly #name: string;
  readonly #path: string;
  /** Of the Lease, as it was read or written last; null where that is not known. */
  #version: string | null = null;
  /** Annotations that only another version of vipnat writes, until they are removed. */
  #unknown: readonly string[] = [];

  constructor(place: LeasePlace) {
    this.#place = place;
    this.#collection = toLeaseResource(place.namespace).path;
    this.#name = toLeaseName(place.node);
    this.#path = `${this.#collection}/${this.#name}`;
  }

  /** Renews the Lease at that time; without a report, what it says stays. Answers null, or why it was not taken: a sentence. Never rejects. */
  async write(report: NodeReport | null, renewTime: string): Promise<string | null> {
    for (let tries = 1; ; tries += 1) {
      const { outcome, detail } = await this.#writeOnce(report, renewTime);
      if (outcome === 'taken') return null;
      if (tries === maxTries || !['conflict', 'exists', 'gone'].includes(outcome)) return detail;
    }
  }

  async #writeOnce(report: NodeReport | null, renewTime: string) {
    const { client } = this.#place;
    if (this.#version === null) {
      const read = await client.read(
        { title: `reading Lease ${this.#name}`, path: this.#path, schema: stored },
        limitMs,
      );
      if (read.outcome === 'forbidden' || read.outcome === 'unreachable') return read;
      this.#version = read.outcome === 'found' ? read.object.metadata.resourceVersion : null;
      if (read.outcome === 'found') this.#unknown = listUnknown(read.object.metadata.annotations ?? {});
    }
    const answer = await client.write(this.#toWrite(report, renewTime), limitMs);
    this.#version = answer.version;
    if (answer.outcome === 'taken' && report !== null) this.#unknown = [];
    return answer;
  }

  /** Creates it, or changes the version that is known. */
  #toWrite(report: NodeReport | null, renewTime: string): ObjectWrite {
    const { node } = this.#place;
    const spec = { holderIdentity: node, leaseDurationSeconds: leaseDurationMs / 1000, renewTime };
    const isNew = this.#version === null;
    const content = report ?? (isNew ? { ...nothing, node } : null);
    const annotations = content === null ? {} : toAnnotations(content);
    const removed = report === null ? {} : Object.fromEntries(this.#unknown.map((name) => [name, null]));
    if (isNew) {
      const body = { ...leaseType, metadata: { name: this.#name, annotations }, spec };
      return { title: `creating Lease ${this.#name}`, method: 'POST', path: this.#collection, body };
    }
    const metadata = { resourceVersion: this.#version, annotations: { ...removed, ...annotations } };
    return {
      title: `renewing Lease ${this.#name}`,
      method: 'PATCH',
      path: this.#path,
      body: { metadata, spec },
    };
  }
}

/** What a later version has said counts no more once this one reports: nobody else would ever take it back. */
function listUnknown(annotations: Readonly<Record<string, string>>): string[] {
  const known: readonly string[] = Object.values(reportAnnotations);
  return Object.keys(annotations).filter((name) => name.startsWith(`${apiGroup}/`) && !known.includes(name));
}

/** Of a node that has done nothing yet. */
const nothing: NodeStatus = { programmed: {}, seats: [], mode: 'none', inUse: [] };

const leaseType = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease' };

interface ReporterPorts extends LeasePlace {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly onRenewed: (renewal: Renewal) => void;
}

/** What a node says of itself. */
export type NodeStatus = Omit<NodeReport, 'node'>;

/** Three of four renewals may be lost. */
const renewMs = 10_000;

/** Twice a second. */
const paceMs = 500;

/** An address is allocated in fewer changes. Of one that no node can program, each change would cost each node a write. */
const hastened: Budget = { capacity: 10, refillMs: 30_000 };

/** An API that is away is asked ever less often; a renewal is due soon after it is back. */
const maxRetryMs = 8000;

/**
 * Says in one Lease what this node has done (docs/design.md).
 * Writes nothing before the first `report` or `renew`: until then, what an earlier process has written counts.
 *
 * Goal: the controller knows within half a second what it waits for.
 * Tension: a thousand nodes that report each change are thousands of writes a second, and most of them nobody waits for.
 * Compromise: a renewal each 10 s says all. Some facts are written immediately, but at most twice a second: what the controller cannot know
 * otherwise (seats, mode, addresses in use), what is left of drains, versions for which an address or a pod waits, and addresses that
 * are newly on an interface since the last report. An unreachable API changes nothing but that.
 */
export class NodeReporter {
  readonly #ports: ReporterPorts;
  readonly #lease: LeaseWriter;
  #report: NodeStatus | null = null;
  #reported: NodeStatus | null = null;
  /** Versions for which somebody waits, or waited, and which no report has had yet; by kind and version. */
  readonly #owed = new Map<string, AwaitedVersion>();
  /** VirtualIPs that wait to how many more reports they may hasten. */
  readonly #objectToBucket = new Map<string | undefined, Bucket>();
  /** Whether the Lease is to be renewed, whatever there is to say. */
  #isNeeded = false;
  #begunAt = -Infinity;
  #failures = 0;
  readonly #writes: Rounds;

  constructor(ports: ReporterPorts) {
    this.#ports = ports;
    this.#lease = new LeaseWriter(ports);
    this.#writes = new Rounds(ports.clock, this.#write.bind(this), this.#findDelay.bind(this));
  }

  /** Takes what this node reports from now on. Returns immediately. */
  report(detail: NodeStatus): void {
    this.#report = detail;
    this.#writes.plan();
  }

  /** Renews the Lease soon. Before the first `report` it keeps what an earlier process has written. Returns immediately. */
  renew(): void {
    this.#isNeeded = true;
    this.#writes.plan();
  }

  /**
   * Takes for which versions somebody waits. Each hastens one report: a gate can wait for other nodes for minutes, or without success. A
   * VirtualIP hastens few as long as it waits, however often it or its Services change meanwhile.
   */
  setAwaited(awaited: readonly AwaitedVersion[]): void {
    const objects = new Set(awaited.map(({ object }) => object));
    for (const object of this.#objectToBucket.keys())
      if (!objects.has(object)) this.#objectToBucket.delete(object);
    for (const one of awaited) {
      const key = `${one.kind} ${one.version}`;
      if (isReported(this.#reported, one) || this.#owed.has(key) || !this.#mayHasten(one)) continue;
      this.#owed.set(key, one);
    }
    this.#writes.plan();
  }

  /** Ends when nothing is in progress. The Lease stays: this node still works as before. */
  async stop(): Promise<void> {
    await this.#writes.stop();
  }

  #mayHasten({ object }: AwaitedVersion): boolean {
    if (object === undefined) return true;
    const now = this.#ports.clock.now();
    const known = this.#objectToBucket.get(object) ?? fillBucket(hastened, now);
    const { bucket, waitMs } = takeToken(hastened, known, now);
    this.#objectToBucket.set(object, bucket);
    return waitMs === 0;
  }

  #findDelay(): number | null {
    if (this.#report === null && !this.#isNeeded) return null;
    const usualMs = this.#isUrgent() ? paceMs : renewMs;
    const delayMs = this.#failures > 0 ? backOff(this.#failures - 1, paceMs, maxRetryMs) : usualMs;
    return this.#begunAt + delayMs - this.#ports.clock.now();
  }

  #isUrgent(): boolean {
    const [report, before] = [this.#report, this.#reported];
    if (this.#isNeeded || report === null || before === null) return true;
    if (!isDeepStrictEqual(toUnknowable(report), toUnknowable(before))) return true;
    if ([...this.#owed.values()].some((one) => isReported(report, one))) return true;
    // The last report may lack addresses that keepalived had not added to an interface yet.
    return before.announced !== before.programmed.virtualips && report.announced !== before.announced;
  }

  async #write(): Promise<void> {
    const { clock, node, logger, onRenewed } = this.#ports;
    const detail = this.#report;
    const begunMs = clock.now();
    const text = toMicroTime(clock.date());
    [this.#begunAt, this.#isNeeded] = [begunMs, false];
    const problem = await this.#lease.write(detail === null ? null : { ...detail, node }, text);
    if (problem === null) {
      if (this.#failures > 0) logger.info('the API takes what this node says again');
      [this.#failures, this.#reported] = [0, detail];
      for (const [key, one] of this.#owed) if (isReported(detail, one)) this.#owed.delete(key);
      onRenewed({ begunMs, text });
    } else {
      if (this.#failures === 0 && !this.#writes.isStopped)
        logger.warn(
          `${problem}. The controller does not know what this node has done; vipnat tries again, and takes no new address meanwhile`,
        );
      this.#failures += 1;
      this.#isNeeded ||= detail === null;
    }
  }
}

function isReported(report: NodeStatus | null, { kind, version }: AwaitedVersion): boolean {
  return report !== null && isProgrammed(report, kind, version);
}

/** What the controller cannot know otherwise. */
function toUnknowable(status: NodeStatus): NodeStatus {
  // Every node knows who drains. Only those whose connections have changed have something to report immediately.
  const draining = status.draining?.filter(({ connections }) => (connections ?? 0) > 0) ?? [];
  return { ...status, programmed: {}, announced: '', draining };
}

/** A renewal that the API has taken. */
export interface Renewal {
  /** When it was sent, by the clock's milliseconds. */
  readonly begunMs: number;
  /** The Lease's `renewTime`. */
  readonly text: string;
}

interface LeaseValidityPorts extends Pick<ReporterPorts, 'clock' | 'node'> {
  /** Called when the Lease is to be renewed soon: something waits for it. */
  readonly onNeeded: () => void;
}

/**
 * Whether the controller counts on this node, by this node's own renewals of its Lease. Of one node and one life of its balancer.
 *
 * Goal: the controller may give an address to another Service while this node does not renew, and this node does not serve it wrongly.
 * Tension: a node that reaches the API again may be cut off again before it has reported that it is back. The controller would not know
 * what it took in between.
 * Compromise: a term begins with the first renewal, and with each one after a gap. New addresses wait for a term, and for a list
 * that began in it. A gap is measured from when a renewal began: the controller's own measure begins later.
 */
export class LeaseValidity {
  readonly #ports: LeaseValidityPorts;
  readonly #onTerm = new Set<() => void>();
  #last: Renewal = { begunMs: -Infinity, text: '' };

  constructor(ports: LeaseValidityPorts) {
    this.#ports = ports;
  }

  /** Whether the controller is sure to count this node as living. */
  get isLiving(): boolean {
    return this.#isLivingAt(this.#ports.clock.now());
  }

  /** Has a function called whenever a term begins: what was read before may be older than what the controller knows of this node. */
  onTerm(listener: () => void): void {
    this.#onTerm.add(listener);
  }

  renewed(renewal: Renewal): void {
    const isTerm = !this.#isLivingAt(renewal.begunMs);
    this.#last = renewal;
    if (isTerm) for (const begin of this.#onTerm) begin();
  }

  /** Has the Lease renewed soon, unless it was. */
  need(): void {
    if (!this.isLiving) this.#ports.onNeeded();
  }

  /** Takes which nodes did not receive an address. If this one since its last renewal, the term is over: this host may have been suspended. */
  noteAbsent(absent: readonly AbsentNode[]): void {
    const { node } = this.#ports;
    if (!absent.some((one) => one.node === node && one.renewal === this.#last.text)) return;
    this.#last = { ...this.#last, begunMs: -Infinity };
    this.need();
  }

  #isLivingAt(nowMs: number): boolean {
    return nowMs - this.#last.begunMs < leaseDurationMs;
  }
}
