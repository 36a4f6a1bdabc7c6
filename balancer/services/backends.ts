import {
  type Family,
  type AddressRange,
  mergeRanges,
  listBlocks,
  toPrefix,
  parseAddress,
  toBlock,
  familyToBits,
  toNumber,
  isInSubnet,
} from '../../lib/net.ts';
import type { PlacedAddress } from '../../lib/kernel/addresses.ts';
import { safeInterface } from '../../lib/keepalived/read.ts';
import type { Service, Method, ServiceSlice } from '../../lib/api/service.ts';
import { type Backend, chooseNear, chooseServing } from '../../lib/api/endpoints.ts';
import type { MissingFeatures } from '../../lib/kernel/nftables.ts';
import type { NodeEndings } from '../../lib/api/node.ts';

/** A tenant writes them: they are read once, in n log n. A Service with more is kube-proxy's. A list of these takes 30 ms of a processor. */
export const maxSourceRanges = 2000;

interface SourceRanges {
  /** Null where everybody may come. */
  readonly familyToRanges: Readonly<Record<Family, FamilyRanges>> | null;
  /** What is no range, as it was written: nobody of it may come. */
  readonly malformed: readonly string[];
  readonly isTooLong: boolean;
}

interface FamilyRanges {
  /** In order. None meets another one. */
  readonly ranges: readonly AddressRange[];
  /** The same as the fewest CIDRs, an address without its length. */
  readonly texts: readonly string[];
}

const everybody: SourceRanges = { familyToRanges: null, malformed: [], isTooLong: false };

/** Lists live as long as the Service's object: endpoints change all the time, and the list does not. */
const known = new WeakMap<readonly string[], SourceRanges>();

/** Reads a list: one without a range of a family is nobody of that family, and one of blanks is no list. The same answer for the same array. */
export function readSourceRanges(list: readonly string[] | null | undefined): SourceRanges {
  if (list === null || list === undefined) return everybody;
  const found = known.get(list) ?? read(list);
  known.set(list, found);
  return found;
}

function read(list: readonly string[]): SourceRanges {
  if (list.length > maxSourceRanges) return { ...everybody, isTooLong: true };
  const given = list.map((text) => text.trim()).filter((text) => text !== '');
  if (given.length === 0) return everybody;
  const ranges = given.map(parseSourceRange);
  const merged = mergeRanges(ranges.filter((range) => range !== null));
  const ofFamily = (family: Family): FamilyRanges => {
    const own = merged.filter((range) => range.family === family);
    return { ranges: own, texts: own.flatMap(listBlocks).map(toPrefix) };
  };
  return {
    familyToRanges: { ipv4: ofFamily('ipv4'), ipv6: ofFamily('ipv6') },
    malformed: given.filter((_, at) => ranges[at] === null),
    isTooLong: false,
  };
}

/** `10.1.2.3/8` is its network's. An address alone is itself. Decimal and without leading zeros: others read them as octal. */
function parseSourceRange(text: string): AddressRange | null {
  const [, base = '', length] = /^([^/]+)(?:\/(0|[1-9]\d{0,2}))?$/.exec(text) ?? [];
  const address = parseAddress(base);
  return address === null ? null : toBlock(address, Number(length ?? familyToBits[address.family]));
}

/**
 * Who may come to some addresses of a family; null for everybody. A host that holds a Service's address asks from that address: where the
 * host may come, so may it (kube-proxy does the same). The same array for the same list, unless that adds something.
 */
export function listSources(
  { familyToRanges }: SourceRanges,
  family: Family,
  { addresses, local }: { readonly addresses: readonly string[]; readonly local: ReadonlySet<string> },
): readonly string[] | null {
  if (familyToRanges === null) return null;
  const { ranges, texts } = familyToRanges[family];
  if (!numberLocal(local)[family].some((number) => isInRanges(number, ranges))) return texts;
  const outside = addresses.filter((text) => !isInRanges(toNumber({ family, text }), ranges));
  return outside.length === 0 ? texts : [...texts, ...outside].sort();
}

type Numbers = Readonly<Record<Family, readonly bigint[]>>;

const localToNumbers = new WeakMap<ReadonlySet<string>, Numbers>();

/** A host may have thousands, and each Service with ranges asks. */
function numberLocal(local: ReadonlySet<string>): Numbers {
  const known = localToNumbers.get(local);
  if (known !== undefined) return known;
  const addresses = [...local].flatMap((text) => parseAddress(text) ?? []);
  const ofFamily = (family: Family) => addresses.filter((one) => one.family === family).map(toNumber);
  const numbers = { ipv4: ofFamily('ipv4'), ipv6: ofFamily('ipv6') };
  localToNumbers.set(local, numbers);
  return numbers;
}

/** By halves: ranges are in order. */
function isInRanges(number: bigint, ranges: readonly AddressRange[]): boolean {
  let [from, to] = [0, ranges.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    const range = ranges[middle];
    if (range !== undefined && range.first <= number && number <= range.last) return true;
    if (range !== undefined && range.first > number) to = middle;
    else from = middle + 1;
  }
  return false;
}

/** kube-proxy in ipvs mode gives it the addresses of all Services, on every node. Source: pkg/proxy/ipvs, defaultDummyDevice. */
export const proxyInterface = 'kube-ipvs0';

/**
 * This host's addresses with a subnet, if kube-proxy has an interface with Services' addresses here; null otherwise. The kernel then
 * takes an address for one of whichever interface had it first (fib_lookup of Linux 6.1), which is kube-proxy's after a move. Pure.
 */
export function listUplinks(addresses: readonly PlacedAddress[]): readonly PlacedAddress[] | null {
  if (!addresses.some(({ device }) => device === proxyInterface)) return null;
  return addresses.filter(
    ({ device, family, prefixLength }) =>
      ![proxyInterface, 'lo'].includes(device) &&
      prefixLength < familyToBits[family] &&
      safeInterface.test(device),
  );
}

/** The interfaces in whose subnets one of a Service's addresses is, sorted; null where none is, or the kernel can tell. Pure. */
export function findUplinks(
  addresses: readonly string[],
  uplinks: readonly PlacedAddress[] | null,
): readonly string[] | null {
  const near = (uplinks ?? []).filter((uplink) => addresses.some((address) => isInSubnet(address, uplink)));
  return near.length === 0 ? null : [...new Set(near.map(({ device }) => device))].sort();
}

/**
 * The rule that takes packets to a Service's address out that are not from outside: those of pods and programs of this node, and all on a
 * node that does not hold the address. With `findUplinks` it is looser: other nodes take themselves for the one that holds the address. Pure.
 */
export function acceptInside(uplinks: readonly string[] | null): string[] {
  if (uplinks === null) return ['fib daddr . iif type != 2 accept'];
  return [`${uplinks.map((name) => `iifname != "${name}"`).join(' ')} accept`];
}

/** The endpoints that this node sends new connections to; null where others are to decide. */
export function chooseBackends(
  service: Service,
  backends: readonly Backend[],
  place: Place,
): readonly Backend[] | null {
  if (!isLocal(service)) return chooseNear(chooseServing(backends), place);
  const here = chooseServing(backends.filter(({ node }) => node === place.node));
  return here.length === 0 && chooseServing(backends).length > 0 ? null : here;
}

/** With policy Local, connections are translated on the endpoint's own node only: those of `onlyOn`. */
export function listDraining(
  backends: readonly Backend[],
  chosen: readonly Backend[],
  onlyOn: string | null,
): readonly End[] {
  return backends.filter(
    (one) =>
      (one.isEnding || one.weight === 0) && !chosen.includes(one) && (onlyOn === null || one.node === onlyOn),
  );
}

/** Whether endpoints see the clients' own addresses. */
export function isLocal({ spec }: Service): boolean {
  return spec.externalTrafficPolicy === 'Local';
}

/** Transport protocols that a Service can have, to their numbers. */
export const protocolToNumber: ReadonlyMap<string, string> = new Map([
  ['TCP', '6'],
  ['UDP', '17'],
  ['SCTP', '132'],
]);

/** Connections to one port of a Service, at its addresses of one family. */
export interface PortBalance {
  readonly family: Family;
  /** `NAMESPACE/NAME`. */
  readonly service: string;
  readonly addresses: readonly string[];
  /** A key of protocolToNumber. */
  readonly protocol: string;
  readonly port: number;
  readonly method: Method;
  /** For how long a client stays with its endpoint; null for not at all. */
  readonly affinitySeconds: number | null;
  /** Who may come; null for everybody. */
  readonly sources: readonly string[] | null;
  /** Whether the endpoints see the client's own address. Then all of them are on this node. */
  readonly keepsClient: boolean;
  /** Whether this node decides: not with policy Local and all endpoints elsewhere. kube-proxy's rules do then. */
  readonly isHere: boolean;
  /** How connections from outside get to other nodes while this one holds the address; null for not at all. */
  readonly relay: Relay | null;
  /** Where new connections go, sorted, with their shares where these are not the usual; empty when there is nobody: then they are refused, if this node decides. */
  readonly backends: readonly (End & Partial<Pick<Backend, 'weight'>>)[];
  /** With the method `lc`: what each of them gets, as `nameEnd` names it, see `shareByCounts`. Absent while nothing was counted. */
  readonly parts?: ReadonlyMap<string, number>;
  /** All that the slices have, also those that take no new connection. */
  readonly present: readonly End[];
  /** Those that end, or have no weight, and take no new connection here: they may have open ones. */
  readonly draining: readonly End[];
  /** For how many milliseconds they may keep these; null for as long as they are there. */
  readonly drainMs: number | null;
  /** Of the first port of a Service. */
  readonly guard?: Guard;
}

/** The balances of one Service, of both families. */
export type Balances = readonly PortBalance[];

/** Kubernetes' own default: three hours. Source: core/v1, DefaultClientIPServiceAffinitySeconds. */
export const defaultAffinitySeconds = 10_800;

/** Addresses of which this Service's part of the table refuses all ports that no Service names. */
export interface Guard {
  /** To the ports that Services name, also those that are kube-proxy's: `PROTOCOL NUMBER . PORT`. */
  readonly addresses: ReadonlyMap<string, readonly string[]>;
  /** See `findUplinks`. */
  readonly uplinks: readonly string[] | null;
}

/** Where connections to a port go. */
export type End = Pick<Backend, 'address' | 'port'>;

/** What a port's chains and sets are called after: `default/web/tcp/80`. */
export function identifyPort({ service, protocol, port }: PortBalance): string {
  return `${service}/${protocol.toLowerCase()}/${port}`;
}

/** What an endpoint is called in the maps of a table. */
export function nameEnd({ address, port }: End): string {
  return `${address} . ${port}`;
}

/** A port's protocol as the kernel knows it. */
export function toProtocolNumber({ protocol }: PortBalance): string {
  return protocolToNumber.get(protocol) ?? '';
}

/** A Service, as far as this node is to balance it. */
export interface BalancedService {
  readonly service: Service;
  readonly slices: readonly ServiceSlice[];
  /** Addresses of endpoints to their weights; those that are not there have the usual one. */
  readonly weights: ReadonlyMap<string, number>;
  /** Those that a VirtualIP gives it. */
  readonly addresses: Readonly<Record<Family, readonly string[]>>;
  /** Ports of these addresses, as `nameTaken` names them, to another Service that had the address before; none when left out. */
  readonly taken?: ReadonlyMap<string, string>;
  /** Ports of a family that get no memory, see `MemoryBudget`: they are kube-proxy's. None when left out. */
  readonly withheld?: ReadonlySet<string>;
  /** Those of them that it guards for all Services that share them, to the ports that these name, as `PROTOCOL NUMBER . PORT`. */
  readonly guarded?: ReadonlyMap<string, readonly string[]>;
}

/** A port of an address. */
export function nameTaken(
  address: string,
  { protocol, port }: Pick<PortBalance, 'protocol' | 'port'>,
): string {
  return `${address} ${protocol} ${port}`;
}

/** Where this is. */
export interface Place {
  readonly node: string;
  /** The addresses of this host, but those of Services. */
  readonly local: ReadonlySet<string>;
  /** The addresses of Services. */
  readonly vips: ReadonlySet<string>;
  /** The zone of this node; null where it has none, or nobody has said it. */
  readonly zone: string | null;
  /** See `listUplinks`. */
  readonly uplinks: readonly PlacedAddress[] | null;
  /** Addresses of endpoints that packets reach by a router, which sends back what is sent on to a Service's address; none when left out. */
  readonly routed?: ReadonlySet<string>;
  /** See `listStrictTunnels`; none when left out. */
  readonly strictTunnels?: readonly string[];
  /** The nodes that do not answer; none when left out. */
  readonly outages?: Pick<NodeOutages, 'out' | 'lost'>;
  /** The nodes that end; none when left out. */
  readonly endings?: Pick<NodeEndings, 'has'>;
  /** The nodes whose pods Kubernetes calls not ready for its own fault, see `applyKept`; none when left out. */
  readonly kept?: Pick<ReadonlySet<string>, 'has'>;
  /** What rules may not need here; nothing when left out. */
  readonly missing?: MissingFeatures;
}

/**
 * Where the node that holds the address sends connections, with policy Local and pods on other nodes. It sends packets from outside on to
 * a node with pods, as they came. That node translates them and answers the client itself, so pods see the client's own address.
 */
export interface Relay {
  /** An endpoint that takes new connections, by its address and port: with the node to send on to, or null for this one. */
  readonly ends: ReadonlyMap<string, string | null>;
  /** The same endpoints to their weights. */
  readonly weights: ReadonlyMap<string, number>;
  /** Nodes to an endpoint of each, whose path packets take. Also nodes whose endpoints take no new connection: they have open ones. */
  readonly nodes: ReadonlyMap<string, string>;
  /** Interfaces by which packets from outside come, see `findUplinks`. When left out: the one that has the address. */
  readonly uplinks?: readonly string[];
}

interface RelayPlace extends Pick<Place, 'routed'>, Readonly<Record<'here' | 'protocol', string>> {
  readonly uplinks?: readonly string[] | null;
}

/** The nodes with endpoints but this one, to an endpoint of each: one that serves, where there is one. */
export function listNodes(backends: readonly Backend[], here: string): ReadonlyMap<string, string> {
  const placed = backends.filter(({ node }) => node !== null && node !== here);
  // The last one of a node counts.
  return new Map(
    [...placed, ...chooseServing(placed)].map(({ node, address }) => [node ?? '', address] as const),
  );
}

/**
 * Null where no other node has an endpoint that can be reached by this path. Endpoints whose node is unknown cannot. UDP has no
 * open connections: a client is sent elsewhere as soon as an endpoint takes none.
 */
export function planRelay(
  backends: readonly Backend[],
  { here, protocol, uplinks = null, routed = new Set() }: RelayPlace,
): Relay | null {
  const away = new Set(
    [...listNodes(backends, here)].flatMap(([node, to]) => (routed.has(to) ? [node] : [])),
  );
  const placed = backends.filter(({ node }) => node !== null && !away.has(node));
  const serving = chooseServing(placed);
  // The last one of a node counts: one that serves, where there is one.
  const present = protocol === 'UDP' ? serving : [...placed, ...serving];
  const nodes = new Map(
    present.filter(({ node }) => node !== here).map(({ node, address }) => [node ?? '', address]),
  );
  if (nodes.size === 0) return null;
  const ends = new Map(serving.map((one) => [nameEnd(one), one.node === here ? null : one.node]));
  const weights = new Map(serving.map((one) => [nameEnd(one), one.weight]));
  return { ends, weights, nodes, ...(uplinks === null ? {} : { uplinks }) };
}

/**
 * The endpoints of a port as they are with these nodes: those of nodes that end are as pods that are being deleted. So they keep their open
 * connections, and serve on where nobody else is ready. Pure.
 */
export function applyEndings(
  backends: readonly Backend[],
  endings: Pick<NodeEndings, 'has'>,
): readonly Backend[] {
  const isOnEnding = ({ node }: Backend) => node !== null && endings.has(node);
  if (!backends.some(isOnEnding)) return backends;
  return backends.map((one) =>
    isOnEnding(one)
      ? { ...one, isReady: false, isEnding: true, isServingLast: one.isReady || one.isServingLast }
      : one,
  );
}

type SliceEndpoint = NonNullable<ServiceSlice['endpoints']>[number];

const servesNoMore = { ready: false, serving: false, terminating: true };

/** More are as gone: some megabytes. */
const maxLeft = 10_000;

/**
 * Endpoints that EndpointSlices have lost, and never called terminating. A selector, a label or a port is another one, and their pods may live.
 * They get no new connection, and keep open ones as a pod does that ends: until a slice has them again, or another pod at their address; until
 * they end by the slices of another Service; or until `drop`.
 */
export class LeftEndpoints {
  /** By Service, and by endpoint and port. Each has one of both. */
  readonly #serviceToSlices = new Map<string, Map<string, ServiceSlice>>();
  /** Whether a node does not answer. A pod that leaves meanwhile is gone. */
  isOut: (node: string) => boolean = () => false;

  /** What the slices of a Service have no more, of one of them as it was: each port of each endpoint as a slice. */
  lose(before: ServiceSlice, now: readonly ServiceSlice[]): readonly ServiceSlice[] {
    const lost = new Map(divide(before));
    // The last one is what the slice is now: mostly it has all of them.
    for (const slice of now.toReversed()) {
      if (lost.size === 0) break;
      for (const [name] of divide(slice)) lost.delete(name);
    }
    return [...lost.values()].map((one) =>
      this.#isGone(one, now) ? { ...one, endpoints: toEnded(one) } : one,
    );
  }

  /** A pod that has another address started again, as with its node. */
  #isGone({ addressType, endpoints }: ServiceSlice, now: readonly ServiceSlice[]): boolean {
    const [before] = endpoints ?? [];
    const isMoved = ({ targetRef: pod, addresses }: SliceEndpoint) =>
      typeof pod === 'number' && pod === before?.targetRef && addresses[0] !== before.addresses[0];
    const ofFamily = now.filter((slice) => slice.addressType === addressType);
    return this.isOut(before?.nodeName ?? '') || ofFamily.some((slice) => slice.endpoints?.some(isMoved));
  }

  /** Keeps what a Service has lost, but for what ended. */
  add(service: string, lost: readonly ServiceSlice[]): void {
    const left = this.#serviceToSlices.get(service) ?? new Map<string, ServiceSlice>();
    for (const [name, slice] of lost.filter((one) => !isEnded(one)).flatMap(divide))
      if (left.size < maxLeft) left.set(name, { ...slice, endpoints: toEnded(slice) });
    if (left.size > 0) this.#serviceToSlices.set(service, left);
  }

  /** As slices of a Service. */
  list(service: string): readonly ServiceSlice[] {
    return [...(this.#serviceToSlices.get(service)?.values() ?? [])];
  }

  /** Takes a slice of any Service. Answers the Services that have lost an endpoint for good, or have it again. */
  dropListed(owner: string, slice: ServiceSlice): string[] {
    if (this.#serviceToSlices.size === 0) return [];
    const names = new Set(divide(slice).map(([name]) => name));
    const pods = new Map((slice.endpoints ?? []).map((one) => [one.addresses[0], one]));
    return this.drop((service, address, { pod, name }) => {
      const listed = pods.get(address);
      const isOther = listed !== undefined && !isSamePod(listed, pod);
      return isOther || (service === owner && names.has(name));
    });
  }

  /** Takes what any Service has lost. */
  dropEnded(lost: readonly ServiceSlice[]): string[] {
    const ended = lost.filter(isEnded).flatMap(({ endpoints }) => endpoints ?? []);
    if (ended.length === 0) return [];
    const pods = new Map(ended.map((one) => [one.addresses[0], one]));
    return this.drop((_, address, { pod }) => {
      const end = pods.get(address);
      return end !== undefined && isSamePod(end, pod);
    });
  }

  /** Forgets some. Answers the Services that had them. */
  drop(
    isChosen: (service: string, address: string, one: { pod: number | null; name: string }) => boolean,
  ): string[] {
    const services = new Set<string>();
    for (const [service, left] of this.#serviceToSlices)
      for (const [name, { endpoints }] of left) {
        const { addresses: [address = ''] = [], targetRef: pod = null } = endpoints?.[0] ?? {};
        if (!isChosen(service, address, { pod, name })) continue;
        left.delete(name);
        services.add(service);
        if (left.size === 0) this.#serviceToSlices.delete(service);
      }
    return [...services];
  }
}

/** The ports of the endpoints, each as a slice. */
function divide(slice: ServiceSlice): [name: string, slice: ServiceSlice][] {
  return (slice.endpoints ?? []).flatMap((endpoint) =>
    (slice.ports ?? []).map((port): [string, ServiceSlice] => [
      [endpoint.addresses[0], port.protocol, port.port, port.name].join(' '),
      { ...slice, endpoints: [endpoint], ports: [port] },
    ]),
  );
}

function toEnded({ endpoints }: ServiceSlice) {
  return endpoints?.map((one) => ({ ...one, conditions: servesNoMore }));
}

function isEnded({ endpoints }: ServiceSlice): boolean {
  return endpoints?.[0]?.conditions?.terminating === true;
}

type Conditions = Pick<SliceEndpoint, 'conditions'>;

/** Whether an endpoint takes connections. What a condition does not say counts as good. */
export function isReady({ conditions }: Conditions): boolean {
  return conditions?.ready ?? true;
}

/** Whether its pod is being deleted. */
export function isTerminating({ conditions }: Conditions): boolean {
  return conditions?.terminating === true;
}

/** Whether Kubernetes says of an endpoint that takes connections who is near it. */
export function hasHints({ conditions, hints }: Pick<SliceEndpoint, 'conditions' | 'hints'>): boolean {
  return isReady({ conditions }) && (hints?.forZones?.length ?? 0) + (hints?.forNodes?.length ?? 0) > 0;
}

/** Whether an endpoint is of a pod, see `toPodNumber`. Where only one side says which pod it is, the address has to do. */
export function isSamePod({ targetRef }: Pick<SliceEndpoint, 'targetRef'>, pod: number | null): boolean {
  return typeof targetRef !== 'number' || pod === null || targetRef === pod;
}

/**
 * The endpoints of a port as they are where Kubernetes has lost most nodes, see `listMissedNodes`: it calls all their pods not ready. Those
 * that do not end take connections. The same list where no node is kept. Pure.
 */
export function applyKept(
  backends: readonly Backend[],
  kept: Pick<ReadonlySet<string>, 'has'>,
): readonly Backend[] {
  const isKept = ({ node, isReady, isEnding }: Backend) => !isReady && !isEnding && kept.has(node ?? '');
  return backends.some(isKept)
    ? backends.map((one) => (isKept(one) ? { ...one, isReady: true } : one))
    : backends;
}

/** The nodes that do not answer. */
export interface NodeOutages {
  /** Their endpoints take no new connection. */
  readonly out: ReadonlySet<string>;
  /** Those of them whose open connections are lost, too: their endpoints are as gone. */
  readonly lost: ReadonlySet<string>;
  /** Those that never answered, or are not asked: Kubernetes alone knows whether they live. */
  readonly unheard: ReadonlySet<string>;
}

/** All nodes answer, or nobody asks. */
export const noOutages: NodeOutages = { out: new Set(), lost: new Set(), unheard: new Set() };

/**
 * The endpoints of a port as they are with these outages: those of nodes that are out are as not ready. Where nobody would be left, all are as
 * before: connections are rather sent to nodes that do not answer than nowhere. Pure.
 */
export function applyOutages(
  backends: readonly Backend[],
  { out, lost }: Pick<NodeOutages, 'out' | 'lost'>,
): readonly Backend[] {
  if (!backends.some(({ node }) => node !== null && out.has(node))) return backends;
  const left = backends
    .filter(({ node }) => node === null || !lost.has(node))
    .map((one) =>
      one.node !== null && out.has(one.node) ? { ...one, isReady: false, isServingLast: false } : one,
    );
  return chooseServing(left).length > 0 ? left : backends;
}
