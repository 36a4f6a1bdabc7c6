import { type Address, parseAddress } from '../../lib/address/address.ts';
import { allVrids } from '../../lib/keepalived/vrid.ts';
import { parseObjectName } from '../../lib/services/address-name.ts';
import { parseAnchor } from '../../lib/services/anchors.ts';
import { parseGoDuration } from '../../lib/services/go-duration.ts';
import { type AddressPool, type Seat, type VirtualIp } from '../../lib/services/objects.ts';
import { findPlace, type HostNetworks, placeAddress, type PlacedAddress } from './place-address.ts';

/** What the API has that the seats of a node follow from. */
export interface SeatsInput {
  readonly pools: readonly AddressPool[];
  readonly virtualIps: readonly VirtualIp[];
  /** Up to which version these are all VirtualIPs; null where that is not known. */
  readonly version?: string | null;
}

/** The node whose seats are planned. */
export interface SeatsHost extends HostNetworks {
  /** As the API names it. */
  readonly node: string;
}

/** A seat that this node may hold. */
export interface PlannedSeat {
  /** `POOL/INDEX`. */
  readonly name: string;
  /** Whoever has it on the interface `lo` holds the seat. */
  readonly anchor: Address;
  /** The interface that carries its adverts. */
  readonly device: string;
  readonly vrid: number;
  /** This node's among those that may hold the seat: 0 is the first. */
  readonly place: number;
  readonly advertMs: number;
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
  /** The same by names: seats, and the first addresses of each, to clauses. */
  readonly unheld: Readonly<Record<string, string>>;
}

/**
 * The seats that a node may hold. Nothing of the API is trusted: what would make keepalived refuse the file, or take an address
 * of this host away, is left out and named. Equal on all nodes but for places and interfaces. Pure.
 */
export function planSeats({ pools, virtualIps }: SeatsInput, host: SeatsHost): SeatsPlan {
  const planning: Planning = { host, problems: [], unheld: new Map(), taken: new Set(), owners: new Map() };
  const candidates = pools
    .flatMap((pool) => (pool.status?.seats ?? []).map((seat) => toCandidate(pool, seat)))
    .filter(({ seat }) => seat.nodes.includes(host.node))
    .sort((one, other) => (one.name < other.name ? -1 : 1));
  const seatToVirtualIps = groupAddresses(virtualIps);
  const seats = candidates.flatMap((candidate) => planSeat(planning, candidate, seatToVirtualIps));
  return { seats, problems: planning.problems, unheld: Object.fromEntries(planning.unheld) };
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

function toCandidate(pool: AddressPool, seat: Seat): Candidate {
  return { name: `${pool.metadata.name}/${seat.index}`, pool, seat };
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
  const [place, advertMs] = [seat.nodes.indexOf(host.node), readAdvert(pool)];
  return [{ name, ...instance, place, advertMs, isUsed: virtualIps.length > 0, addresses }];
}

type Instance = Pick<PlannedSeat, 'anchor' | 'device' | 'vrid'>;

/** What keepalived knows a seat by. A problem, as a clause, where it would refuse that, or another seat has it. */
function planInstance(
  { host, owners }: Planning,
  { name, pool, seat }: Candidate,
): Instance | { readonly problem: string } {
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
  return areNumbers && anchor !== undefined && network?.family === anchor.family
    ? { anchor, network, vrid }
    : null;
}

/** The schema of the API takes no other: 100 ms to 10 s, in hundredths of a second (RFC 9568, section 5.2.7). */
function readAdvert({ spec }: AddressPool): number {
  const ms = parseGoDuration(spec.advert) ?? defaultAdvertMs;
  return Math.min(10_000, Math.max(100, Math.round(ms / 10) * 10));
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
  const refused: string[] = [];
  const family = parseAnchor(seat.anchor)?.address.family;
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
  if (first !== undefined) {
    problems.push(`this node does not hold ${refused.length} of the addresses of seat ${name}: ${first}`);
  }
  return places;
}
