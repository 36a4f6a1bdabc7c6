import {
  type SeatFiles,
  type VrrpInstance,
  refreshSeconds,
  renderConfiguration,
  toPriority,
} from '../../lib/keepalived/write.ts';
import {
  seatsMark,
  toRouterId,
  allVrids,
  type HostAddress,
  listDevices,
  listSubnets,
  isWhole,
  isUsable,
} from '../../lib/keepalived/read.ts';
import {
  type AddressPool,
  type VirtualIp,
  type Seat,
  parseAnchor,
  mostSeatNodes,
} from '../../lib/api/vipnat.ts';
import {
  type Address,
  parseAddress,
  parseObjectName,
  classifyAddress,
  isInSubnet,
  toBlock,
  toNumber,
  familyToBits,
} from '../../lib/net.ts';
import { parseGoDuration } from '../../lib/api/service.ts';

/** The text of keepalived.conf. Pure: equal input, equal bytes. */
export function renderSeats(
  node: string,
  seats: readonly PlannedSeat[],
  { checkBalancer, notices, checkLog }: SeatFiles,
): string {
  // keepalived announces 350 addresses a second, and begins with the first one each time: the last one needs its turn.
  const least = Math.ceil(seats.flatMap(({ addresses }) => addresses).length / 300);
  return renderConfiguration({
    mark: seatsMark,
    routerId: toRouterId(node),
    // IPv6 and adverts of less than a second have no other.
    version: 3,
    globals: [
      // Where the balancer cannot check the file, keepalived does: a file that it refuses changes nothing.
      `reload_check_config ${checkLog}`,
      // Without it, keepalived 2.2.7 and 2.3.3 find fault with each file that has a script.
      'enable_script_security',
    ],
    notices,
    guard: {
      keyword: 'track_script',
      path: checkBalancer,
      comment:
        'vipnat balancer writes this script. It fails for a while after a balancer has ended or hangs that a Service needs.',
    },
    instances: seats.map((seat) => toInstance({ ...seat, refresh: Math.max(seat.refresh, least) })),
    group: null,
  });
}

/** The addresses that a node holds, or whose seat was held at least, as the controller says. Pure. */
export function listAnnounced({ virtualIps }: SeatsInput): ReadonlySet<string> {
  const isAnnounced = ({ status }: VirtualIp) =>
    status?.conditions?.some(({ type, status: is }) => type === 'Announced' && is === 'True') === true;
  return new Set(
    virtualIps.filter(isAnnounced).flatMap(({ metadata }) => parseObjectName(metadata.name)?.text ?? []),
  );
}

/** Of one family. Adverts name the anchor alone: nodes that differ in a Service's address still agree on the seat holder. */
function toInstance({ name, anchor, device, vrid, place, isUsed, addresses, ...times }: PlannedSeat) {
  const others = new Set(addresses.map((one) => one.device));
  return {
    name: `seat-${name}`,
    device,
    vrid,
    priority: toPriority(place),
    advertMs: times.advertMs,
    ...(times.refresh === refreshSeconds ? {} : { refreshSeconds: times.refresh }),
    // A seat that nobody uses goes to its first node: so new clusters spread their seats. Later nothing moves by itself.
    preempts: !isUsed,
    unicast: null,
    addresses: [`${render({ address: anchor, device: 'lo' }, device)} ${anchorOptions[anchor.family]}`],
    excluded: addresses.map((one) => render(one, device)),
    tracked: [...others].filter((one) => one !== device && one !== 'lo').sort(),
  };
}

/** On `lo` keepalived announces it to nobody. For IPv6, keepalived 2.2.7 refuses a scope. */
const anchorOptions = { ipv4: 'scope host no_track', ipv6: 'no_track' } as const;

function render({ address: { family, text }, device }: PlacedAddress, usual: string): string {
  return `${text}/${familyToBits[family]}${device === usual ? '' : ` dev ${device}`}`;
}

/** What the API has that the seats of a node follow from. */
export interface SeatsInput {
  readonly pools: readonly AddressPool[];
  readonly virtualIps: readonly VirtualIp[];
  /** Up to which version these are all VirtualIPs; null where that is not known. */
  readonly version?: string | null;
}

interface SeatsHost extends HostNetworks {
  /** As the API names it. */
  readonly node: string;
}

/** A seat that this node may hold. */
export interface PlannedSeat extends Pick<VrrpInstance, 'device' | 'vrid' | 'advertMs'> {
  /** `POOL/INDEX`. */
  readonly name: string;
  /** Whoever has it on the interface `lo` holds the seat. */
  readonly anchor: Address;
  /** This node's among those that may hold the seat: 0 is the first. */
  readonly place: number;
  /** How often its addresses are announced again, in seconds. */
  readonly refresh: number;
  /** Whether a Service has an address of it. */
  readonly isUsed: boolean;
  /** Of Services, and of the anchor's family; sorted. */
  readonly addresses: readonly PlacedAddress[];
}

/** All seats of one node. */
export interface SeatsPlan {
  /** Sorted by name. */
  readonly seats: readonly PlannedSeat[];
  /** What is left out, and why: a sentence for each. */
  readonly problems: readonly string[];
  /** The same by names: seats, and the first addresses of each, to clauses. Also seats that may name this node later. */
  readonly unheld: Readonly<Record<string, string>>;
}

/**
 * The seats that a node may hold. Nothing of the API is trusted: what would make keepalived refuse the file, or take an address
 * of this host away, is left out and named. Equal on all nodes but for places and interfaces. Pure.
 */
export function planSeats({ pools, virtualIps }: SeatsInput, host: SeatsHost): SeatsPlan {
  const planning: Planning = { host, problems: [], unheld: new Map(), taken: new Set(), owners: new Map() };
  const all = pools
    .flatMap((pool) =>
      (pool.status?.seats ?? []).map((seat) => ({ name: `${pool.metadata.name}/${seat.index}`, pool, seat })),
    )
    .sort((one, other) => (one.name < other.name ? -1 : 1));
  const candidates = all.filter(({ seat }) => seat.nodes.includes(host.node));
  const seatToVirtualIps = groupAddresses(virtualIps);
  const seats = candidates.flatMap((candidate) => planSeat(planning, candidate, seatToVirtualIps));
  for (const candidate of all.filter(({ seat }) => !seat.nodes.includes(host.node)))
    foreseeSeat(planning, candidate);
  return { seats, problems: planning.problems, unheld: Object.fromEntries(planning.unheld) };
}

/** This node may get it later where it names as many as it can. A controller that does not know of a problem would try the same nodes again and again. */
function foreseeSeat(planning: Planning, candidate: Candidate): void {
  if (candidate.seat.nodes.length < mostSeatNodes) return;
  const instance = planInstance({ ...planning, owners: new Map(planning.owners) }, candidate);
  if ('problem' in instance) planning.unheld.set(candidate.name, instance.problem);
}

/** Of one seat's addresses: they go into one annotation, and who has more has one mistake. */
const mostNamed = 20;

interface Planning {
  readonly host: SeatsHost;
  readonly problems: string[];
  readonly unheld: Map<string, string>;
  /** The addresses that have their place. */
  readonly taken: Set<string>;
  /** What seats have alone, each with the seat that has it: names, anchors, virtual_router_ids on interfaces. */
  readonly owners: Map<string, string>;
}

interface Candidate {
  readonly name: string;
  readonly pool: AddressPool;
  readonly seat: Seat;
}

/** None where this node cannot hold it. */
function planSeat(
  planning: Planning,
  candidate: Candidate,
  seatToVirtualIps: ReadonlyMap<string, readonly VirtualIp[]>,
): PlannedSeat[] {
  const { host, problems, unheld } = planning;
  const { name, pool, seat } = candidate;
  const instance = planInstance(planning, candidate);
  if ('problem' in instance) {
    problems.push(`this node does not hold seat ${name}: ${instance.problem}`);
    unheld.set(name, instance.problem);
    return [];
  }
  const virtualIps = seatToVirtualIps.get(name) ?? [];
  const addresses = placeAddresses(planning, candidate, virtualIps);
  const [place, isUsed] = [seat.nodes.indexOf(host.node), virtualIps.length > 0];
  return [{ name, ...instance, place, ...readTimes(pool), isUsed, addresses }];
}

/** What keepalived knows a seat by. A problem, as a clause, where it would refuse that, or another seat has it. */
function planInstance(
  { host, owners }: Planning,
  { name, pool, seat }: Candidate,
): Pick<PlannedSeat, 'anchor' | 'device' | 'vrid'> | { readonly problem: string } {
  const entry = readEntry(seat);
  if (entry === null) return { problem: 'its entry in the status of its pool cannot be read' };
  const { anchor, network, vrid } = entry;
  const place = findPlace(network, pool.spec.interface, host);
  if (typeof place === 'string') return { problem: `${network.text} ${place}` };
  const { device } = place;
  const own = ['the name', `the anchor ${anchor.text}`, `the virtual_router_id ${vrid}`];
  const keys = [name, anchor.text, `${device} ${anchor.family} ${vrid}`];
  const taken = keys.findIndex((key) => owners.has(key));
  if (taken >= 0) return { problem: `seat ${owners.get(keys[taken] ?? '')} has ${own[taken]}, too` };
  for (const key of keys) owners.set(key, name);
  return { anchor, device, vrid };
}

/** Null where a program has written nonsense. */
function readEntry({ index, anchor: text, vrid, network: place }: Seat) {
  const anchor = parseAnchor(text)?.address;
  const network = parseAddress(place);
  const areNumbers = Number.isInteger(index) && index >= 0 && allVrids.includes(vrid);
  const isEntry = areNumbers && anchor !== undefined && network?.family === anchor.family;
  return isEntry ? { anchor, network, vrid } : null;
}

/** The schema of the API takes no others: adverts each 0.1 to 10 s, in hundredths (RFC 9568, 5.2.7), and addresses announced each 10 s to 1 h. */
function readTimes({ spec }: AddressPool): Pick<PlannedSeat, 'advertMs' | 'refresh'> {
  const ms = parseGoDuration(spec.advert) ?? defaultAdvertMs;
  const refreshMs = parseGoDuration(spec.garpInterval ?? '') ?? refreshSeconds * 1000;
  return {
    advertMs: Math.min(10_000, Math.max(100, Math.round(ms / 10) * 10)),
    refresh: Math.min(3600, Math.max(10, Math.round(refreshMs / 1000))),
  };
}

const defaultAdvertMs = 300;

/** By seats' names: the VirtualIPs that Services have, and nobody else on the network. */
function groupAddresses(virtualIps: readonly VirtualIp[]): ReadonlyMap<string, readonly VirtualIp[]> {
  const held = virtualIps.filter(
    ({ spec, status }) =>
      spec.services.length > 0 &&
      !(status?.conditions ?? []).some((one) => one.type === 'AddressInUse' && one.status === 'True'),
  );
  return Map.groupBy(held, ({ spec }) => `${spec.pool}/${spec.seat}`);
}

function placeAddresses(
  { host, problems, unheld, taken }: Planning,
  { name, pool, seat }: Candidate,
  virtualIps: readonly VirtualIp[],
): PlacedAddress[] {
  const [refused, family] = [Array<string>(), parseAnchor(seat.anchor)?.address.family];
  const place = (address: Address | null) => {
    if (address === null) return 'is not an address';
    // While the controller moves it.
    if (address.family !== family) return 'is of another family than its seat';
    return placeAddress(address, pool.spec.interface, host);
  };
  const places = virtualIps
    .map(({ metadata }) => metadata.name)
    .sort()
    .flatMap((objectName) => {
      const address = parseObjectName(objectName);
      const text = address?.text ?? objectName;
      if (taken.has(text)) return [];
      const placed = place(address);
      if (typeof placed === 'string') {
        const why = `${text} ${placed}`;
        refused.push(why);
        if (refused.length <= mostNamed) unheld.set(text, why);
        return [];
      }
      taken.add(text);
      return [placed];
    });
  const [first] = refused;
  if (first !== undefined)
    problems.push(`this node does not hold ${refused.length} of the addresses of seat ${name}: ${first}`);
  return places;
}

/** What tells where a host is to have an address. */
export interface HostNetworks {
  /** See listSubnets. */
  readonly subnets: readonly HostAddress[];
  /** Networks that a route reaches on an interface: each by its first address. */
  readonly onLink?: readonly HostAddress[];
  /** See listAlone. */
  readonly alone?: readonly HostAddress[];
}

/** An address with the interface that gets it. */
export interface PlacedAddress {
  readonly address: Address;
  readonly device: string;
}

/** A host's addresses in no subnet, as clouds and DHCPv6 give them: alone of their family on an interface, and not in keepalived's configuration. Pure. */
export function listAlone(
  hostAddresses: readonly HostAddress[],
  configured: ReadonlySet<string>,
): HostAddress[] {
  const subnets = new Set(listSubnets(hostAddresses).map(({ device, family }) => `${device} ${family}`));
  return hostAddresses.filter(
    (one) =>
      isWhole(one) &&
      isUsable(one) &&
      !subnets.has(`${one.device} ${one.family}`) &&
      !configured.has(one.address),
  );
}

/** Where a host is to have an address, see findPlace. A problem also where keepalived would take a host's own address away. Pure. */
export function placeAddress(
  address: Address,
  interface_: string,
  host: HostNetworks,
): PlacedAddress | string {
  if (classifyAddress(address) !== 'unicast') return 'is not an address that one host can have';
  const boundary = findBoundary(address, [...host.subnets, ...(host.onLink ?? [])]);
  if (boundary !== null) return boundary;
  const place = findPlace(address, interface_, host);
  // kube-proxy in mode ipvs has Services' addresses alone, too: on an interface of its own.
  const own = [
    ...host.subnets,
    ...(host.alone ?? []).filter(({ device }) => typeof place !== 'string' && device === place.device),
  ];
  return own.some((one) => one.address === address.text) ? 'is an address of this host itself' : place;
}

/** The interface of that name; for `auto` that whose subnet has the address, or to which its most specific route leads. Else a problem: a clause. Pure. */
function findPlace(address: Address, interface_: string, host: HostNetworks): PlacedAddress | string {
  const isAuto = interface_ === 'auto';
  const devices = listDevices(isAuto ? listNetworks(address, host) : listNamed(address, interface_, host));
  const [device, ...others] = devices;
  if (device !== undefined && others.length === 0) return { address, device };
  if (others.length > 0) return `is in the subnets of several interfaces (${devices.join(', ')})`;
  if (!isAuto)
    return `needs the interface ${interface_}, which has no ${familyNames[address.family]} address here`;
  const known =
    listDevices(host.subnets).join(', ') || 'none: spec.interface of the pool can name an interface';
  return `is in no subnet of this host (it has ${known})`;
}

/** With an own address of its family, by which keepalived sends its adverts. */
function listNamed({ family }: Address, name: string, { subnets, alone = [] }: HostNetworks): HostAddress[] {
  return [...subnets, ...alone].filter((one) => one.device === name && one.family === family);
}

function listNetworks({ text }: Address, { subnets, onLink = [] }: HostNetworks): HostAddress[] {
  const around = subnets.filter((one) => isInSubnet(text, one));
  if (around.length > 0) return around;
  // The smallest networks that have it: several where interfaces have the same one.
  const reached = onLink.filter((one) => isInSubnet(text, one));
  const longest = Math.max(...reached.map(({ prefixLength }) => prefixLength));
  return reached.filter(({ prefixLength }) => prefixLength === longest);
}

/** Neighbours send to nobody there, or to each router: RFC 919 and 922, and RFC 4291, 2.6.1. Links of two hosts have no such addresses (RFC 3021, 6164). */
function findBoundary(address: Address, subnets: readonly HostAddress[]): string | null {
  const bits = familyToBits[address.family];
  const subnet = subnets.find((one) => isInSubnet(address.text, one) && bits - one.prefixLength > 1);
  if (subnet === undefined) return null;
  const block = toBlock(address, subnet.prefixLength);
  const number = toNumber(address);
  const name = `the subnet of ${subnet.device}`;
  if (number === block?.first) return `is the address of ${name} itself`;
  return address.family === 'ipv4' && number === block?.last ? `is the broadcast address of ${name}` : null;
}

const familyNames = { ipv4: 'IPv4', ipv6: 'IPv6' } as const;
