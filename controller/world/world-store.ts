/** Keeps the world that steps are decided from: one change costs what it changes. */
import { type Affected, joinAffected, unaffected } from './affected.ts';
import { type ReservedRange } from './judge-pools.ts';
import { type Change } from '../../lib/kubernetes/object-store.ts';
import { type EndpointSlice } from '../../lib/kubernetes/resources.ts';
import { type Namespace, type Node, type ServiceCidr } from '../../lib/services/cluster.ts';
import { type NodeReport } from '../../lib/services/node-report.ts';
import { type AddressPool, type VirtualIp } from '../../lib/services/objects.ts';
import { type Service } from '../../lib/services/services.ts';
import { parseObjectName } from '../../lib/services/address-name.ts';
import { CandidateNodes } from './candidate-nodes.ts';
import { GateStore } from './gate-store.ts';
import { ClaimStore } from './kept-back.ts';
import { KnownLeases } from './known-leases.ts';
import { KnownVirtualIps } from './known-virtual-ips.ts';
import { listDiffering } from './list-differing.ts';
import {
  listOfApiservers,
  listOfNode,
  listOfReport,
  listOfService,
  listOfServiceCidr,
  listApiVrids,
} from './list-reserved.ts';
import { MultiMap, put } from './multi-map.ts';
import { PoolJudge } from './pool-judge.ts';
import { ReservedVrids } from './reserved-vrids.ts';
import {
  listUsers,
  listPools,
  hasSamePoolParts,
  toUseText,
  toNodeText,
  toServiceKey,
  toVirtualIpKey,
  toLeaseKey,
  toPoolKey,
} from './object-parts.ts';
import { listPublishedTexts } from './published.ts';
import { listReportUsers } from './report-users.ts';
import { type HeardLease, type Settings, type SilentNode, uncontested, type World } from './world.ts';

/** The objects, and what finds them. Informers' changes go in; whoever runs the queue asks for `view`. */
export class WorldStore {
  /** Pods and early EndpointSlices. */
  readonly gates: GateStore;
  readonly #settings: Settings;
  readonly #services = new Map<string, Service>();
  readonly #virtualIps = new KnownVirtualIps();
  readonly #pools = new Map<string, AddressPool>();
  readonly #namespaces = new Map<string, Namespace>();
  readonly #nodes = new Map<string, Node>();
  readonly #reports = new Map<string, NodeReport>();
  readonly #leases = new KnownLeases();
  readonly #silent = new Map<string, SilentNode>();
  readonly #addressToPublishers = new MultiMap();
  readonly #judge = new PoolJudge(this.#pools, (address) => this.#virtualIps.hasAddress(address));
  readonly #claims: ClaimStore;
  /** Null: something changed since it was made. */
  #candidates: CandidateNodes | null = null;
  readonly #reservedVrids = new ReservedVrids();

  constructor(settings: Settings) {
    this.#settings = settings;
    this.gates = new GateStore(this.#services);
    const owners = { services: this.#services, namespaces: this.#namespaces };
    this.#claims = new ClaimStore(owners, this.#judge, settings.isDefaultClass);
  }

  /** A Service of any type. */
  changeService(change: Change<Service>): Affected {
    const { key, after } = change;
    put(this.#services, key, after);
    const gates = this.gates.changeService(change);
    const taken = this.#takeOut(`Service/${key}`, listOfService(after));
    return joinAffected([
      this.#changePublished(change),
      this.#claims.changeService(change),
      ...[gates, taken],
    ]);
  }

  #changePublished({ key, before, after }: Change<Service>): Affected {
    const [old, now] = [listPublishedTexts(before), listPublishedTexts(after)];
    this.#addressToPublishers.move(key, old, now);
    const names = this.#virtualIps.ofService.get(key);
    const sharers = names.flatMap((name) => listUsers(this.#virtualIps.all.get(name) ?? null));
    const isOther = JSON.stringify([before?.spec, old]) !== JSON.stringify([after?.spec, now]);
    const keys = [
      ...[...new Set([key, ...sharers])].map(toServiceKey),
      ...names.map(toVirtualIpKey),
      ...this.#judge.findPoolsOf(listDiffering(old, now)).map(toPoolKey),
    ];
    return { keys, wakes: new Set(isOther && names.length + old.length > 0 ? ['addresses'] : []) };
  }

  /** An address that is given, or given back. */
  changeVirtualIp(change: Change<VirtualIp>): Affected {
    const { key, before, after } = change;
    this.#virtualIps.change(change);
    const [old, now] = [listUsers(before), listUsers(after)];
    const pools = new Set([
      ...listPools(before),
      ...listPools(after),
      ...this.#judge.findPoolsOf([parseObjectName(key)?.text ?? '']),
    ]);
    const isOther = toUseText(before) !== toUseText(after);
    const isNew = (before === null) !== (after === null);
    const judged =
      isNew && this.#judge.touch(parseObjectName(key)?.text ?? '') ? this.#judgeAnew([]) : unaffected;
    const affected = {
      keys: [
        toVirtualIpKey(key),
        ...[...new Set([...old, ...now])].map(toServiceKey),
        ...(isOther ? [...pools].map(toPoolKey) : []),
        ...this.gates.changeVirtualIp(change),
      ],
      wakes: new Set(isOther && before !== null ? (['addresses'] as const) : []),
    };
    return joinAffected([affected, judged]);
  }

  /** A pool: it is judged with all others. */
  changePool({ key, before, after }: Change<AddressPool>): Affected {
    put(this.#pools, key, after);
    this.#judge.reset();
    return this.#judgeAnew(hasSamePoolParts(before, after) ? [] : this.#virtualIps.ofPool.get(key));
  }

  /** A namespace: pools select by its labels. */
  changeNamespace({ key, before, after }: Change<Namespace>): Affected {
    put(this.#namespaces, key, after);
    if (JSON.stringify(before?.metadata.labels) === JSON.stringify(after?.metadata.labels)) return unaffected;
    this.#claims.reset();
    return { keys: [...this.#pools.keys()].map(toPoolKey), wakes: new Set(['addresses']) };
  }

  /** A node: its labels, its addresses and those of its pods. */
  changeNode({ key, before, after }: Change<Node>): Affected {
    put(this.#nodes, key, after);
    const isTouched = this.#judge.reserve(`Node/${key}`, after === null ? [] : listOfNode(after));
    const isSame = !isTouched && toNodeText(before) === toNodeText(after);
    const keys = [
      ...this.gates.changeNode({ key, before, after }),
      ...(after === null ? [toLeaseKey(key)] : []),
    ];
    return joinAffected([{ ...unaffected, keys }, ...(isSame ? [] : [this.#judgeAnew([])])]);
  }

  /** Where ClusterIPs come from. */
  changeServiceCidr({ key, after }: Change<ServiceCidr>): Affected {
    return this.#takeOut(`ServiceCIDR/${key}`, listOfServiceCidr(after));
  }

  /** Where apiservers are. */
  changeApiservers({ key, after }: Change<EndpointSlice>): Affected {
    return this.#takeOut(`EndpointSlice/${key}`, listOfApiservers(after));
  }

  /** The Lease of a node, whatever it says; null when it is gone. */
  changeLease(name: string, lease: HeardLease | null, isProven = true): void {
    if (this.#leases.change(name, lease, isProven)) this.#candidates = null;
  }

  /** What a living node says; null when its Lease is gone: then nothing is known of it any more. */
  changeReport(node: string, report: NodeReport | null): Affected {
    this.#silent.delete(node);
    const areOthers = this.#reservedVrids.put(`Lease/${node}`, listApiVrids(report));
    const isTouched = this.#judge.reserve(`Lease/${node}`, listOfReport(report)) || areOthers;
    return joinAffected([this.#putReport(node, report), ...(isTouched ? [this.#judgeAnew([])] : [])]);
  }

  /** A node's Lease is over, after this last renewal. Its kernel may have what it had: only the API may be away from it. */
  silenceNode(node: string, renewal: string): Affected {
    const report = this.#reports.get(node);
    if (report === undefined) return unaffected;
    this.#silent.set(node, { renewal, report });
    return joinAffected([this.#putReport(node, null), { ...unaffected, keys: [toLeaseKey(node)] }]);
  }

  #putReport(node: string, report: NodeReport | null): Affected {
    const before = this.#reports.get(node);
    put(this.#reports, node, report);
    this.#candidates = null;
    return {
      keys: listReportUsers(before, report, {
        services: this.#services,
        virtualIps: this.#virtualIps.all,
        pools: this.#pools,
        poolToVirtualIps: this.#virtualIps.ofPool,
      }),
      wakes: new Set(['nodes']),
    };
  }

  /** What the objects of the API do not tell: its own virtual IPs, and their VRIDs. */
  reserve(addresses: readonly ReservedRange[], vrids: ReadonlySet<number>): Affected {
    this.#reservedVrids.put('settings', vrids);
    this.#judge.reserve('settings', addresses);
    return this.#judgeAnew([]);
  }

  /** These addresses are others' now, as far as this source says. */
  #takeOut(source: string, ranges: readonly ReservedRange[]): Affected {
    return this.#judge.reserve(source, ranges) ? this.#judgeAnew([]) : unaffected;
  }

  /** The world at a date. It changes with the store. */
  view(nowMs: number): World {
    this.#candidates ??= new CandidateNodes(this.#pools, this.#nodes, this.#reports, this.#leases.unproven);
    return {
      candidates: this.#candidates,
      services: this.#services,
      ...this.#virtualIps.view(nowMs),
      pools: this.#pools,
      judgedPools: this.#judge.judged,
      namespaces: this.#namespaces,
      nodes: this.#nodes,
      livingReports: this.#reports,
      silentNodes: this.#silent,
      leases: this.#leases.all,
      addressToPublishers: this.#addressToPublishers.map,
      keptBack: this.#claims,
      reservedVrids: this.#reservedVrids.all,
      contested: uncontested,
      gates: this.gates.view,
      settings: this.#settings,
      nowMs,
    };
  }

  /** All pools, as one pool can be refused for another's sake, and who has addresses of those whose rules have changed. */
  #judgeAnew(virtualIps: readonly string[]): Affected {
    this.#candidates = null;
    this.#claims.reset();
    const users = virtualIps.flatMap((name) => listUsers(this.#virtualIps.all.get(name) ?? null));
    return {
      keys: [
        ...[...this.#pools.keys()].map(toPoolKey),
        ...virtualIps.map(toVirtualIpKey),
        ...[...new Set(users)].map(toServiceKey),
      ],
      wakes: new Set(['addresses', 'nodes']),
    };
  }
}
