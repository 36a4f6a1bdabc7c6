import {
  type PortBalance,
  type BalancedService,
  type Place,
  maxSourceRanges,
  readSourceRanges,
  listSources,
  noOutages,
  findUplinks,
  protocolToNumber,
  applyOutages,
  applyEndings,
  applyKept,
  listNodes,
  chooseBackends,
  isLocal,
  planRelay,
  listDraining,
  type Guard,
  nameTaken,
  defaultAffinitySeconds,
} from './backends.ts';
import { families, type Family } from '../../lib/net.ts';
import { type Backend, listBackends } from '../../lib/api/endpoints.ts';
import {
  type Service,
  type ServicePort,
  readAnnotation,
  readDuration,
  methods,
  findUnknownMethod,
} from '../../lib/api/service.ts';
import { quoteTenant } from '../../lib/text.ts';
import { nameReversePathFilter } from '../../lib/kernel/forwarding.ts';
import { countHashSlots, maxSlots } from '../table/slots.ts';

/** What to balance, a sentence for each endpoint that cannot be used, and one for each setting that is not applied. */
export interface ServiceBalance {
  readonly ports: readonly PortBalance[];
  readonly refused: readonly string[];
  readonly remarks: readonly string[];
  /** Why kube-proxy's rules alone get its connections, although nobody asks for that: a clause. Null where they do not. */
  readonly left: string | null;
  /** See describeDropping. */
  readonly dropping: string | null;
  /** Addresses of endpoints on other nodes, one of each, of which `Place.routed` is to say whether they are reached by a router. */
  readonly elsewhere: readonly string[];
}

/** Of a Service that this node has nothing to do with. */
export const noBalance: ServiceBalance = {
  ...{ ports: [], refused: [], remarks: [], elsewhere: [] },
  ...{ left: null, dropping: null },
};

/** What balanceService answers for both families; nothing for a Service that is gone. */
export function balanceFamilies(balanced: BalancedService | null, place: Place): ServiceBalance {
  const decided = balanced === null ? [] : families.map((family) => balanceService(balanced, family, place));
  const ports = decided.flatMap((one) => one.ports);
  const missing = describeMissing(ports, place.missing);
  if (missing !== null) return { ...noBalance, left: missing };
  return {
    ports,
    refused: decided.flatMap(({ refused }) => refused),
    remarks: [...new Set(decided.flatMap(({ remarks }) => remarks))],
    left: decided.map(({ left }) => left).find((left) => left !== null) ?? null,
    dropping: describeDropping(ports, place),
    elsewhere: [...new Set(decided.flatMap(({ elsewhere }) => elsewhere))],
  };
}

/** The endpoints of a port as their nodes are. */
function applyNodes(backends: readonly Backend[], place: Place): readonly Backend[] {
  const { outages = noOutages, endings = new Set(), kept = new Set() } = place;
  return applyOutages(applyEndings(applyKept(backends, kept), endings), outages);
}

/**
 * The ports of a Service that this node balances. A port of policy Local without a pod here, but with one elsewhere, is only sent on:
 * kube-proxy's rules know what to do with connections of this node itself. None is where the Service asks for kube-proxy.
 */
export function balanceService(balanced: BalancedService, family: Family, place: Place): ServiceBalance {
  const { service, slices } = balanced;
  const addresses = balanced.addresses[family];
  if (addresses.length === 0 || isLeftToKubeProxy(service)) return noBalance;
  const ranges = readSourceRanges(service.spec.loadBalancerSourceRanges);
  const left = describeExcess(balanced) ?? describeWithheld(balanced);
  if (left !== null) return { ...noBalance, left };
  const refused: string[] = [];
  const general = {
    ...describeService(service),
    family,
    sources: listSources(ranges, family, { addresses, local: place.local }),
  };
  const onlyOn = general.keepsClient ? place.node : null;
  const nodeToAddress = new Map<string, string>();
  const { routed = new Set() } = place;
  const uplinks = findUplinks(addresses, place.uplinks);
  const ports = listPorts(balanced, family).flatMap((port): PortBalance[] => {
    const own = addresses.filter((address) => !balanced.taken?.has(nameTaken(address, port)));
    if (own.length === 0) return [];
    const query = { family, name: port.name, protocol: port.protocol, weights: balanced.weights };
    const listing = listBackends(slices, query, place.vips);
    refused.push(...listing.refused);
    const present = applyNodes(listing.backends, place);
    const elsewhere = onlyOn === null ? [] : listNodes(present, onlyOn);
    for (const [node, address] of elsewhere) nodeToAddress.set(node, address);
    const chosen = chooseBackends(service, present, place);
    const path = { protocol: port.protocol, uplinks, routed };
    const relay = onlyOn === null ? null : planRelay(present, { ...path, here: onlyOn });
    if (chosen === null && relay === null) return [];
    return [
      {
        ...{ ...general, addresses: own },
        ...{ protocol: port.protocol, port: port.port, relay },
        ...{ isHere: chosen !== null, backends: chosen ?? [], present },
        draining: listDraining(present, chosen ?? [], onlyOn),
      },
    ];
  });
  const dropping = describeDropping(ports, place);
  const losses = listLosses(service, dropping, nodeToAddress, place);
  return {
    ports: addGuard(ports, addresses, balanced, uplinks),
    refused,
    remarks: [...listRemarks(balanced, ranges.malformed), ...losses],
    ...{ left, dropping },
    elsewhere: [...nodeToAddress.values()],
  };
}

function listPorts({ service, withheld }: BalancedService, family: Family): ServicePort[] {
  return (service.spec.ports ?? []).filter(
    (port) =>
      protocolToNumber.has(port.protocol) && withheld?.has(nameMemory(service, family, port)) !== true,
  );
}

/** The first port has it. */
function addGuard(
  ports: readonly PortBalance[],
  addresses: readonly string[],
  { guarded = new Map() }: BalancedService,
  uplinks: Guard['uplinks'],
): readonly PortBalance[] {
  const named = addresses.filter((address) => guarded.has(address));
  const own = new Map(named.map((address) => [address, guarded.get(address) ?? []]));
  const [first, ...others] = ports;
  if (first === undefined || own.size === 0) return ports;
  return [{ ...first, guard: { addresses: own, uplinks } }, ...others];
}

/** Whether the owner of a Service wants kube-proxy's rules alone to have its connections. */
export function isLeftToKubeProxy(service: Service): boolean {
  return readAnnotation(service, 'dataplane') === 'kube-proxy';
}

function describeService(service: Service) {
  const { metadata, spec } = service;
  return {
    service: `${metadata.namespace}/${metadata.name}`,
    method: methods.find((method) => method === readAnnotation(service, 'method')) ?? methods[0],
    affinitySeconds: readAffinity(spec),
    keepsClient: isLocal(service),
    drainMs: readDuration(service, 'drainTimeout').ms,
  };
}

function readAffinity({ sessionAffinity, sessionAffinityConfig }: Service['spec']): number | null {
  if (sessionAffinity !== 'ClientIP') return null;
  return sessionAffinityConfig?.clientIP?.timeoutSeconds ?? defaultAffinitySeconds;
}

type NftFeature = NonNullable<Place['missing']>[Family][number];

/** What people have to do about one that is missing, as a clause. */
const featureToText: Readonly<Record<NftFeature, string>> = {
  fib: 'the kernel has no nft_fib',
  dup: 'the kernel has no nft_dup',
  hash: 'the kernel has no nft_hash',
  numgen: 'the kernel has no nft_numgen',
  reject: 'the kernel cannot refuse packets before routing, as Linux 5.9 and later can',
  'verdict map': 'this nft cannot read its own maps of verdicts, as nft 1.0.6 and later can',
};

/** Why a Service with these ports cannot be in the tables here: a clause; null where nothing is missing. Pure. */
function describeMissing(ports: readonly PortBalance[], missing: Place['missing']): string | null {
  if (missing === undefined) return null;
  const lacking = ports.flatMap((port) =>
    missing[port.family]
      .filter((feature) => listNeeds(port).includes(feature))
      .map((feature) => describe(feature, port.family)),
  );
  return lacking.length === 0 ? null : [...new Set(lacking)].join(', and ');
}

function describe(feature: NftFeature, family: Family): string {
  const isOfFamily = feature === 'fib' || feature === 'dup';
  return isOfFamily ? `${featureToText[feature]}_${family}` : featureToText[feature];
}

/** As `balancer/table/render.ts` writes them. */
function listNeeds(port: PortBalance): NftFeature[] {
  const { relay, isHere, backends, affinitySeconds, keepsClient, method } = port;
  const toOutside: NftFeature[] = relay?.uplinks === undefined ? ['fib'] : [];
  const forRelay: NftFeature[] = relay === null ? [] : [...toOutside, 'dup', 'hash', 'verdict map'];
  if (!isHere) return forRelay;
  if (backends.length === 0) return [...forRelay, 'reject'];
  return [
    ...forRelay,
    method === 'hash' ? 'hash' : 'numgen',
    ...(affinitySeconds === null ? [] : (['verdict map'] as const)),
    ...(keepsClient ? (['fib'] as const) : []),
  ];
}

/** What the owner of a Service asks for, and does not get: a sentence each. `malformed` are its source ranges that are none. Pure. */
function listRemarks({ service, taken, withheld }: BalancedService, malformed: readonly string[]): string[] {
  const dataplane = readAnnotation(service, 'dataplane') ?? 'direct';
  const method = findUnknownMethod(service);
  const name = `${service.metadata.namespace}/${service.metadata.name}`;
  const ask = (what: string, text: string, effect: string) =>
    `${name} asks for the ${what} ${quoteTenant(text)}, which is not a duration: ${effect}`;
  const drain = readDuration(service, 'drainTimeout').malformed;
  const start = readDuration(service, 'slowStart').malformed;
  const [range] = malformed;
  const [ranges, them] = malformed.length === 1 ? ['source range', 'it'] : ['source ranges', 'them'];
  const sentences = [
    ...describeTaken(service, taken ?? new Map()),
    ...describeNew(name, withheld),
    range !== undefined &&
      `${name} has ${malformed.length} ${ranges} that vipnat cannot read, such as ${quoteTenant(range)}: no client comes in by ${them}`,
    drain !== null && ask('drain timeout', drain, 'open connections stay until their pod is gone'),
    start !== null && ask('slow start', start, 'a new pod gets its whole share of connections immediately'),
    dataplane !== 'direct' &&
      `${name} asks for the balancing mode ${quoteTenant(dataplane)}, which vipnat does not have: it is balanced directly`,
    method !== null &&
      `${name} asks for the method ${quoteTenant(method)}, which vipnat does not have: pods are chosen at random`,
  ];
  return sentences.filter((sentence) => sentence !== false);
}

/** Why this node drops what others send on to its pods, and what to do: a clause, or null. Only policy Local has relays, and the filter is IPv4's. Pure. */
function describeDropping(ports: readonly PortBalance[], { strictTunnels = [] }: Place): string | null {
  const isSentOn = ports.some(({ family, isHere, relay }) => family === 'ipv4' && isHere && relay !== null);
  if (!isSentOn || strictTunnels.length === 0) return null;
  const switches = strictTunnels.map((device) => `${nameReversePathFilter(device)}=2`).join(' ');
  return (
    `with policy Local, this node drops what other nodes send on by ${strictTunnels.join(' and ')} (rp_filter is 1). ` +
    `Run: sysctl -w ${switches}`
  );
}

/** What clients of a Service with policy Local lose on this node, and nodes that nothing is sent on to. */
function listLosses(
  { metadata }: Service,
  dropping: string | null,
  nodeToAddress: ReadonlyMap<string, string>,
  { routed = new Set() }: Place,
): string[] {
  const name = `${metadata.namespace}/${metadata.name}`;
  const away = [...nodeToAddress].filter(([, address]) => routed.has(address));
  return [
    ...(dropping === null ? [] : [`${name}: ${dropping}`]),
    ...away.map(
      ([node, address]) =>
        `${name} has policy Local, and the router has the route to ${address} of ${quoteTenant(node)}: ` +
        'vipnat sends no connections on to this node, as the router would send them back',
    ),
  ];
}

/** A Service with more elements and rules is kube-proxy's. nft takes three seconds for as many, and is ended after 15 s, with all other Services. */
const maxParts = 300_000;

/** A chain, its rules, and what leads to it. */
const ofChain = 4;

/** Of a node that connections are sent on to: for those that begin, continue, or have ended, and for the path to it. */
const chainsOfPath = 4;

/** Connections of each endpoint of a port are counted: half a kilobyte, and a microsecond of a processor after each count. */
const ofCount = 10;

/** Why a Service is too large for the tables: a clause; null where it is not. Pure. */
function describeExcess(balanced: BalancedService): string | null {
  const { spec } = balanced.service;
  if (readSourceRanges(spec.loadBalancerSourceRanges).isTooLong)
    return `it has more than ${maxSourceRanges} source ranges`;
  if (countParts(balanced) <= maxParts) return null;
  const count = balanced.slices.flatMap((slice) => slice.endpoints ?? []).length;
  return `${count} endpoints of each of ${spec.ports?.length ?? 0} ports are more than its tables can have`;
}

/** Before any of it is made: tenants may write thousands of ports and endpoints, and each port has all. */
function countParts({ service, slices, weights }: BalancedService): number {
  const endpoints = slices.flatMap((slice) => slice.endpoints ?? []);
  const [ports, count] = [service.spec.ports?.length ?? 0, endpoints.length];
  const slots = countSlotParts(readAnnotation(service, 'method'), count, weights.size > 0);
  const kept = service.spec.sessionAffinity === 'ClientIP' ? count * ofChain : 0;
  const nodes = isLocal(service) ? new Set(endpoints.map(({ nodeName }) => nodeName)).size : 0;
  const sentOn = nodes === 0 ? 0 : countHashSlots(count) + nodes * chainsOfPath * ofChain;
  return ports * (ofChain + slots + kept + sentOn);
}

/** With the method `lc`, connections of each endpoint are counted, too. */
function countSlotParts(method: string | undefined, endpoints: number, hasWeights: boolean): number {
  if (method === 'hash') return countHashSlots(endpoints);
  if (method === 'lc') return Math.max(maxSlots, endpoints) + endpoints * ofCount;
  return hasWeights ? Math.max(maxSlots, endpoints) : endpoints;
}

/** Of `maxKeys`, one takes 10 MB of memory of the kernel, which is no pod's: 5 GB where outsiders fill all. */
const maxMemories = 500;

/** With policy Local and ClientIP. A port's part of the tables may have fewer: where no other node has a pod, there is no relay. */
const mostOfPort = 3;

const allTaken = `older Services have the ${maxMemories} memories that a node can have`;

/** A Service by its key; null where it is not there, or has no address. */
type NamedService = readonly [service: string, balanced: BalancedService | null];

/**
 * Who gets memories, of all Services of a node. Takes Services as they come and go.
 *
 * Goal: what outsiders can fill has a bound, however many Services tenants make.
 * Tension: nodes have to agree, and a bound that belongs to all must stop nothing that runs.
 * Compromise: the oldest Services have them. A port keeps its memories, whoever comes. After a start, the tables say which ports have some.
 */
export class MemoryBudget {
  /** Services to their ports that have memories, each as often as it has one. */
  readonly #given = new Map<string, readonly string[]>();
  /** Services that have not got all, to how many they lack. */
  readonly #waiting = new Map<string, number>();
  #left = maxMemories;

  /** Takes the memories that a former life has left, each as its family and its name, and the Services that are there still. */
  constructor(found: Iterable<string>, services: readonly string[]) {
    const there = new Set(services);
    for (const name of found) {
      const [, family = '', port = '', service = ''] =
        /^(\S+) [^/]+\/(([^/]+\/[^/]+).*)\/\d+$/.exec(name) ?? [];
      const before = this.#given.get(service) ?? [];
      if (!there.has(service) || before.includes(`${family} ${port}`)) continue;
      this.#given.set(service, [...before, ...Array<string>(mostOfPort).fill(`${family} ${port}`)]);
      this.#left -= mostOfPort;
    }
  }

  /** The same Services, those that have memories and then the oldest ones first, by the objects alone: each with the ports that get none. */
  admit(services: readonly NamedService[]): NamedService[] {
    const toRank = ([service, balanced]: NamedService) =>
      `${Number(!this.#given.has(service))} ${balanced?.service.metadata.creationTimestamp ?? ''} ${service}`;
    const sorted = services.toSorted((one, other) => (toRank(one) < toRank(other) ? -1 : 1));
    return sorted.map(([service, balanced]) => {
      const withheld = this.#give(service, balanced === null ? [] : listMemories(balanced));
      return [service, balanced === null ? null : { ...balanced, withheld }];
    });
  }

  /** Those that would get all now: they are to be admitted again. */
  get waiting(): readonly string[] {
    return [...this.#waiting].filter(([, lacking]) => lacking <= this.#left).map(([service]) => service);
  }

  #give(service: string, wanted: readonly string[]): ReadonlySet<string> {
    const before = this.#given.get(service) ?? [];
    const [known, asked] = [before, wanted].map((ports) => Map.groupBy(ports, (port) => port));
    const isKept = (port: string) => (known?.get(port)?.length ?? 0) >= (asked?.get(port)?.length ?? 0);
    this.#left += before.length;
    const given = wanted.length <= this.#left ? wanted : wanted.filter(isKept);
    this.#left -= given.length;
    if (given.length === 0) this.#given.delete(service);
    else this.#given.set(service, given);
    if (given.length === wanted.length) this.#waiting.delete(service);
    else this.#waiting.set(service, wanted.length - given.length);
    return new Set(wanted.filter((port) => !given.includes(port)));
  }
}

/** Each port as often as it has a memory: of connections with policy Local, of clients with ClientIP, and of their nodes with both. */
function listMemories(balanced: BalancedService): string[] {
  const { service, addresses } = balanced;
  const { keepsClient, affinitySeconds } = describeService(service);
  const ofClients = affinitySeconds === null ? 0 : 1;
  const count = keepsClient ? 1 + 2 * ofClients : ofClients;
  const used = families.filter((family) => addresses[family].length > 0);
  // Whoever is left for another reason leaves what it could have to the next one.
  if (count === 0 || describeExcess(balanced) !== null || isLeftToKubeProxy(service)) return [];
  const named = (service.spec.ports ?? []).flatMap((port) =>
    used.map((family) => nameMemory(service, family, port)),
  );
  return [...new Set(named)].flatMap((name) => Array<string>(count).fill(name));
}

/** As the names of memories have it. */
function nameMemory({ metadata }: Service, family: Family, { protocol, port }: ServicePort): string {
  return `${family} ${metadata.namespace}/${metadata.name}/${protocol.toLowerCase()}/${port}`;
}

function describeWithheld(balanced: BalancedService): string | null {
  const count = balanced.withheld?.size ?? 0;
  return count > 0 && count === new Set(listMemories(balanced)).size ? allTaken : null;
}

function describeNew(name: string, withheld: ReadonlySet<string> = new Set()): string[] {
  if (withheld.size === 0) return [];
  return [`vipnat leaves ${withheld.size} new ports of ${name} to kube-proxy: ${allTaken}`];
}

/** A sentence for each port that a Service does not get, because another one had it before. Pure. */
function describeTaken({ metadata, spec }: Service, taken: ReadonlyMap<string, string>): string[] {
  return [...taken].flatMap(([place, owner]) => {
    const [address = ''] = place.split(' ');
    const ports = (spec.ports ?? []).filter((port) => nameTaken(address, port) === place);
    return ports.map(
      ({ protocol, port }) =>
        `${metadata.namespace}/${metadata.name} does not get ${protocol}/${port} of ${address}: ${owner} had it before`,
    );
  });
}
