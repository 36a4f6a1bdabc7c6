import { type Address, parseAddress } from '../../lib/address/address.ts';
import { computeVrid } from '../../lib/keepalived/vrid.ts';
import { parseObjectName } from '../../lib/services/address-name.ts';
import { parseGoDuration } from '../../lib/services/go-duration.ts';
import { type AddressPool, type Seat, type VirtualIp } from '../../lib/services/objects.ts';
import { type HostAddress, placeAddress, type PlacedAddress } from './place-address.ts';

/** What the API has that the seats of a node follow from. */
export interface SeatsInput {
  readonly pools: readonly AddressPool[];
  readonly virtualIps: readonly VirtualIp[];
  /** Up to which version these are all VirtualIPs; null where that is not known. */
  readonly version?: string | null;
}

/** The node whose seats are planned. */
export interface SeatsHost {
  /** As the API names it. */
  readonly node: string;
  /** See listSubnets. */
  readonly subnets: readonly HostAddress[];
}

/** A seat that this node may hold. */
export interface PlannedSeat {
  /** `POOL/INDEX`. */
  readonly name: string;
  /** At least one. Whoever has the first one holds the seat. */
  readonly anchors: readonly PlacedAddress[];
  readonly vrid: number;
  /** This node's among those that may hold the seat: 0 is the first. */
  readonly place: number;
  readonly advertMs: number;
  /** Whether a Service has an address of it, be it an anchor. */
  readonly isUsed: boolean;
  /** Of Services, without anchors; sorted. */
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
  const planning: Planning = { host, problems: [], unheld: new Map(), taken: new Set(), vrids: new Map() };
  const candidates = pools
    .flatMap((pool) => (pool.status?.seats ?? []).map((seat) => toCandidate(pool, seat)))
    .filter(({ seat }) => seat.nodes.includes(host.node))
    .sort((one, other) => (one.name < other.name ? -1 : 1));
  // All anchors first: an address that is one stays with it.
  const anchored = candidates.flatMap((candidate) => anchorSeat(planning, candidate));
  const seatToVirtualIps = groupAddresses(virtualIps);
  const seats = anchored.map(({ pool, ...seat }) => ({
    ...seat,
    isUsed: seatToVirtualIps.has(seat.name),
    addresses: placeAddresses(planning, { name: seat.name, pool }, seatToVirtualIps.get(seat.name) ?? []),
  }));
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
  /** The seats that have a virtual_router_id on an interface, in a family. */
  readonly vrids: Map<string, string>;
}

interface Candidate {
  readonly name: string;
  readonly pool: AddressPool;
  readonly seat: Seat;
}

type AnchoredSeat = Omit<PlannedSeat, 'addresses' | 'isUsed'> & Pick<Candidate, 'pool'>;

function toCandidate(pool: AddressPool, seat: Seat): Candidate {
  return { name: `${pool.metadata.name}/${seat.index}`, pool, seat };
}

/** None where this node cannot hold it. */
function anchorSeat(planning: Planning, { name, pool, seat }: Candidate): AnchoredSeat[] {
  const { host, problems, taken, vrids } = planning;
  try {
    const anchors = readAnchors(seat).map((address) => {
      if (taken.has(address.text)) throw new Error(`${address.text} is another seat's`);
      const placed = placeAddress(address, pool.spec.interface, host.subnets);
      if (typeof placed === 'string') throw new Error(`${address.text} ${placed}`);
      return placed;
    });
    const [first] = anchors;
    if (first === undefined) throw new Error('it has no address of its own');
    const vrid = computeVrid(first.address);
    const key = `${first.device} ${first.address.family} ${vrid}`;
    const other = vrids.get(key);
    if (other !== undefined) throw new Error(`seat ${other} has its virtual_router_id, ${vrid}`);
    vrids.set(key, name);
    for (const { address } of anchors) taken.add(address.text);
    return [{ name, pool, anchors, vrid, place: seat.nodes.indexOf(host.node), advertMs: readAdvert(pool) }];
  } catch (error) {
    const why = (error as Error).message;
    problems.push(`this node does not hold seat ${name}: ${why}`);
    planning.unheld.set(name, why);
    return [];
  }
}

/** IPv4 first: adverts are of the first one's family, on every node. */
function readAnchors({ index, anchors }: Seat): Address[] {
  if (!Number.isInteger(index) || index < 0) throw new Error('its index is not a number');
  const addresses = anchors.map(parseAddress).filter((one) => one !== null);
  if (addresses.length < anchors.length) throw new Error(`${anchors.join(', ')} are not all addresses`);
  if (new Set(addresses.map(({ text }) => text)).size < addresses.length)
    throw new Error(`${anchors.join(', ')} are one address`);
  return addresses.sort((one, other) => one.family.localeCompare(other.family));
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
  { name, pool }: Pick<Candidate, 'name' | 'pool'>,
  virtualIps: readonly VirtualIp[],
): PlacedAddress[] {
  const refused: string[] = [];
  const places = virtualIps
    .map(({ metadata }) => metadata.name)
    .sort()
    .flatMap((objectName) => {
      const address = parseObjectName(objectName);
      const text = address?.text ?? objectName;
      if (taken.has(text)) return [];
      const placed =
        address === null ? 'is not an address' : placeAddress(address, pool.spec.interface, host.subnets);
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
