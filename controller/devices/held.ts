import type { Service, ServicePort, ServiceSlice } from '../../lib/api/service.ts';
import type { DeviceDrain, LoadBalancerDevice, DeviceNode } from '../../lib/api/device.ts';
import { toTime } from '../cache/parts.ts';
import {
  type BalancerId,
  type Balancer,
  type Member,
  formatMember,
  readAddresses,
  fitWeights,
} from '../../devices/driver.ts';
import type { ClusterView } from '../cache/cache.ts';
import { type Family, parseAddress, parseEndpoint, type Address } from '../../lib/net.ts';
import {
  listBackends,
  readPodWeight,
  type Backend,
  chooseServing,
  maxWeight,
} from '../../lib/api/endpoints.ts';
import { listMissedNodes } from '../../lib/api/node.ts';

/** A status has so many of them. */
const maxDrains = 100;

/** The members that drain, the longest ones first. `dateOffsetMs` makes a date of a moment of the clock. */
export function listDrains(all: Iterable<HeldBalancer>, dateOffsetMs: number): readonly DeviceDrain[] {
  const drains = [...all].flatMap((held) => held.drains);
  const longest = drains.sort((one, other) => one.sinceMs - other.sinceMs).slice(0, maxDrains);
  return longest.map(({ service, member, sinceMs, sessions }) => {
    return { service, member, since: toTime(dateOffsetMs + sinceMs), sessions };
  });
}

/** What a device has, or may have, of one Service, as far as its writer knows. All of it can be read from the device again. */
export class HeldBalancer {
  readonly id: BalancerId;
  /** What the device is known to have, as text; null where that is not known, or is to be compared. */
  #text: string | null = null;
  #runningSinceMs: number | null = null;
  /** What was asked for last, as text, and how often that was refused in a row. */
  #asked = '';
  #refused: string | null = null;
  #refusals = 0;
  #goneSinceMs: number | null = null;
  #wanted: readonly string[] = [];
  /** By `nameMember`, to since when each drains. */
  members: FormerMembers = new Map();
  /** Addresses that it has, in canonical text. */
  addresses: readonly string[] = [];
  /** Whether the device has, or may have, something of it. */
  isThere = false;
  /** Whether everything of it was taken away, and nothing has come since. */
  isCleared = false;
  /** Whether it has served the addresses that it has now. */
  isServing = false;
  /** Another controller's finalizer is off the Service's Endpoints. */
  isTakenOver = false;
  /** Open connections by member, as `list` counted them last; null where it does not. */
  sessions: ReadonlyMap<string, number> | null = null;

  constructor(id: BalancerId) {
    this.id = id;
  }

  /** Those, and those that it is about to have. */
  get reserved(): readonly string[] {
    return [...new Set([...this.#wanted, ...this.addresses])];
  }

  get isDraining(): boolean {
    return [...this.members.values()].some((sinceMs) => sinceMs !== null);
  }

  /** Members that get no new connections, since when, and their open connections as `list` counted them last. */
  get drains(): readonly (Omit<DeviceDrain, 'since'> & { readonly sinceMs: number })[] {
    const memberToMs = new Map<string, number>();
    for (const [name, sinceMs] of this.members) {
      const member = name.slice(name.lastIndexOf(' ') + 1);
      if (sinceMs !== null) memberToMs.set(member, Math.min(sinceMs, memberToMs.get(member) ?? Infinity));
    }
    const service = `${this.id.namespace}/${this.id.name}`;
    return [...memberToMs].map(([member, sinceMs]) => {
      return { service, member, sinceMs, sessions: this.sessions?.get(member) ?? null };
    });
  }

  /** `list` has found it. What is known to be there otherwise is compared again. */
  find(balancer: Balancer, nowMs: number): void {
    const text = toText(balancer);
    this.isThere = true;
    this.isCleared = false;
    if (text === this.#text) return;
    this.#note(balancer, nowMs);
    // Whether it serves so, its next `ensure` says.
    this.#text = null;
  }

  /** All is to be compared with the device. */
  markStale(): void {
    this.#text = null;
  }

  /** Whether the device is to be asked: it is to be otherwise, or is to be compared. */
  isDue(balancer: Balancer): boolean {
    return toText(balancer) !== this.#text;
  }

  /** A call begins that makes it so; null for one that takes it away. Until it is done, nobody knows what is there. */
  begin(balancer: Balancer | null, nowMs: number): void {
    this.isThere = true;
    this.isCleared = false;
    this.#text = null;
    this.#runningSinceMs ??= nowMs;
    this.#asked = balancer === null ? '' : toText(balancer);
    const wanted = (balancer?.addresses ?? []).map(({ text }) => text);
    if (wanted.some((text) => !this.addresses.includes(text))) this.isServing = false;
    this.#wanted = wanted;
  }

  /** The device has it so. */
  done(balancer: Balancer, nowMs: number): void {
    this.#note(balancer, nowMs);
    this.#text = toText(balancer);
    this.#runningSinceMs = null;
    this.isServing = true;
    this.#wanted = this.addresses;
  }

  /** The device has nothing of it. */
  clear(): void {
    this.isThere = false;
    this.isCleared = true;
    this.isServing = false;
    this.#text = null;
    this.#runningSinceMs = null;
    this.members = new Map();
    [this.addresses, this.#wanted] = [[], []];
  }

  /** For how long the call that is repeated until it is done has run. */
  runsMs(nowMs: number): number {
    return nowMs - (this.#runningSinceMs ?? nowMs);
  }

  /** The last call was refused. Answers the wait before it is repeated: the cause may be gone in a moment, or never. */
  refuse(): number {
    this.#refusals = this.#asked === this.#refused ? this.#refusals + 1 : 0;
    this.#refused = this.#asked;
    return Math.min(30_000 * 2 ** this.#refusals, 300_000);
  }

  /** For how long no Service has had its uid; null where one has. */
  noteGone(isGone: boolean, nowMs: number): number | null {
    this.#goneSinceMs = isGone ? (this.#goneSinceMs ?? nowMs) : null;
    return this.#goneSinceMs === null ? null : nowMs - this.#goneSinceMs;
  }

  #note({ addresses, listeners }: Balancer, nowMs: number): void {
    this.addresses = addresses.map(({ text }) => text);
    const before = this.members;
    this.members = new Map(
      listeners.flatMap(({ protocol, port, members }) =>
        members.map((member) => {
          const name = nameMember(protocol, port, member);
          return [name, member.weight > 0 ? null : (before.get(name) ?? nowMs)] as const;
        }),
      ),
    );
  }
}

function toText({ addresses, listeners, method, affinityS }: Balancer): string {
  return JSON.stringify([addresses, listeners, method, affinityS]);
}

/** Members that a device has, as `nameMember` writes them, to since when each drains; null for those that do not. */
export type FormerMembers = ReadonlyMap<string, number | null>;

/** A port, with whose members it is compared. */
export interface MembersQuery {
  readonly service: Service;
  readonly device: LoadBalancerDevice;
  readonly port: ServicePort;
  readonly slices: readonly ServiceSlice[];
  readonly family: Family;
  /** Addresses that no member has: connections would come back to the device, or end at it. */
  readonly barred: Pick<ReadonlySet<string>, 'has'>;
  readonly former: FormerMembers;
  /** How long a node's port keeps its open connections after it got its last new one. */
  readonly drainMs: number;
  /** By a clock that does not jump. */
  readonly nowMs: number;
}

/** One member of one listener. */
function nameMember(protocol: string, port: number, member: Pick<Member, 'address' | 'port'>): string {
  return `${protocol.toLowerCase()} ${port} ${formatMember(member)}`;
}

/**
 * The members of a port, in the order of their names, and a sentence for each endpoint that cannot be one. Pure.
 *
 * What the device has and is to get no connections any more stays with weight 0: a pod until it is gone, since its address may be another's
 * then, and a node's port for as long as connections may drain.
 *
 * If nobody would be left, and pods are there that do not end, who is there stays with its weight. Kubernetes calls all nodes and pods not ready
 * while kubelets cannot reach the API (KEP-3458), and the device has checks of its own.
 */
export function listMembers(
  query: MembersQuery,
  view: ClusterView,
): { readonly members: readonly Member[]; readonly refused: readonly string[] } {
  const { service, port, slices, family, barred } = query;
  const key = `${service.metadata.namespace}/${service.metadata.name}`;
  const { name, protocol } = port;
  const weights = readWeightsOf(key, view);
  const { backends, refused } = listBackends(slices, { family, name, protocol, weights }, barred);
  const toMembers = query.device.spec.targets === 'pods' ? toPods : toNodes;
  const fitting = fitWeights(toMembers(query, backends, [...view.deviceNodes.values()]), maxWeight);
  const members = fitting.toSorted((one, other) => (formatMember(one) < formatMember(other) ? -1 : 1));
  return { members, refused };
}

/** Addresses of the Service's pods to weights that are not the usual one. */
function readWeightsOf(key: string, { serviceToPods, pods }: ClusterView): ReadonlyMap<string, number> {
  const weights = new Map<string, number>();
  const own = [...(serviceToPods.get(key) ?? [])].flatMap((each) => pods.get(each) ?? []);
  for (const { metadata, status } of own) {
    const weight = readPodWeight(metadata.annotations);
    const texts = status?.podIPs?.map(({ ip }) => ip ?? '') ?? [status?.podIP ?? ''];
    if (weight !== null) for (const { text } of readAddresses(texts)) weights.set(text, weight);
  }
  return weights;
}

/** See `listMissedNodes`: of those that take connections, or would. */
function listKept(nodes: readonly DeviceNode[]): readonly DeviceNode[] {
  return listMissedNodes(nodes.filter((node) => node.isUnresponsive || node.takesConnections));
}

/** Those of these nodes' pods that do not end: Kubernetes calls all of them not ready. */
function listOn(nodes: readonly DeviceNode[], backends: readonly Backend[]): readonly Backend[] {
  const names = new Set<string | null>(nodes.map(({ metadata }) => metadata.name));
  return backends.filter(({ node, isEnding }) => !isEnding && names.has(node));
}

/** Who is not ready, and does not end, as if it were ready. */
function chooseAnyway(backends: readonly Backend[]): readonly Backend[] {
  return chooseServing(backends.map((one) => ({ ...one, isReady: !one.isEnding })));
}

function toPods(query: MembersQuery, backends: readonly Backend[], nodes: readonly DeviceNode[]): Member[] {
  const { port, former } = query;
  const choice = chooseServing(backends);
  const anyway = choice.length > 0 ? listOn(listKept(nodes), backends) : chooseAnyway(backends);
  const last = anyway.map(({ address }) => address);
  const serving = new Set(choice);
  return backends.flatMap((backend): Member[] => {
    const address = parseAddress(backend.address);
    if (address === null) return [];
    const member = { address, port: backend.port };
    const isFormer = former.has(nameMember(port.protocol, port.port, member));
    const isServing = serving.has(backend) || (isFormer && last.includes(backend.address));
    if (isServing) return [{ ...member, weight: Math.max(1, backend.weight) }];
    return isFormer ? [{ ...member, weight: 0 }] : [];
  });
}

function toNodes(query: MembersQuery, backends: readonly Backend[], nodes: readonly DeviceNode[]): Member[] {
  const { port, former } = query;
  const name = (member: Member) => nameMember(port.protocol, port.port, member);
  const kept = listKept(nodes);
  const taking = [...nodes.filter(({ takesConnections }) => takesConnections), ...kept];
  const choice = chooseServing(backends);
  const serving = new Set([...choice, ...listOn(kept, backends)]);
  const chosen = weighNodes(query, [...serving], taking);
  const anyway = () => weighNodes(query, choice.length > 0 ? choice : chooseAnyway(backends), nodes);
  const members = chosen.length > 0 ? chosen : anyway().filter((member) => former.has(name(member)));
  return [...members, ...listDraining(query, new Set(members.map(name)))];
}

function weighNodes(
  query: MembersQuery,
  serving: readonly Backend[],
  nodes: readonly DeviceNode[],
): Member[] {
  const { service, family, port } = query;
  const isLocal = service.spec.externalTrafficPolicy === 'Local';
  // Two nodes may have one address, as where one of them was registered again.
  const textToWeighed = new Map<string, { readonly address: Address; readonly weight: number }>();
  for (const node of nodes) {
    const address = node.addresses.find((one) => one.family === family);
    if (address === undefined) continue;
    const here = serving.filter((backend) => backend.node === node.metadata.name);
    const sum = here.reduce((all, { weight }) => all + Math.max(1, weight), 0);
    const { weight } = textToWeighed.get(address.text) ?? { weight: 0 };
    textToWeighed.set(address.text, { address, weight: weight + sum });
  }
  // With the policy Cluster every node reaches every pod, wherever these are.
  const weighed = [...textToWeighed.values()];
  const isElsewhere = serving.length > 0 && weighed.every(({ weight }) => weight === 0);
  const least = isElsewhere && !isLocal ? 1 : 0;
  return weighed
    .map(({ address, weight }) => ({ address, port: port.nodePort ?? 0, weight: Math.max(least, weight) }))
    .filter(({ weight }) => weight > 0);
}

/** Members that the device has, and that are to get nothing any more: as long as their connections may last. */
function listDraining(query: MembersQuery, known: ReadonlySet<string>): Member[] {
  const { port, former, drainMs, nowMs, family } = query;
  const prefix = `${port.protocol.toLowerCase()} ${port.port} `;
  return [...former].flatMap(([name, sinceMs]): Member[] => {
    if (!name.startsWith(prefix) || known.has(name)) return [];
    const member = parseEndpoint(name.slice(prefix.length));
    const address = parseAddress(member?.address ?? '');
    const isOver = sinceMs !== null && nowMs - sinceMs >= drainMs;
    if (member === null || address?.family !== family || isOver) return [];
    return [{ address, port: member.port, weight: 0 }];
  });
}
