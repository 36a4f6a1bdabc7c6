import { parseAddress } from '../../lib/address/address.ts';
import { type HeldAddress } from './held-addresses.ts';
import { type Newcomers } from './newcomers.ts';
import { type PlacedAddress } from './place-address.ts';
import { type PlannedSeat } from './plan-seats.ts';
import { type HostAddress, isWhole } from '../../lib/keepalived/subnets.ts';

/** What is known of this node's keepalived and its addresses. */
export interface SeatsView {
  readonly hostAddresses: readonly HostAddress[];
  /** The same by their texts. */
  readonly here: ReadonlySet<string>;
  /** Those of the configuration that is there, in canonical text. */
  readonly configured: ReadonlySet<string>;
  readonly isRunning: boolean;
}

/** Whether this node has a seat: whoever has its anchor. */
export function isHeld({ anchor }: PlannedSeat, { hostAddresses }: SeatsView): boolean {
  return hostAddresses.some((one) => one.device === 'lo' && isWhole(one) && one.address === anchor.text);
}

/** The addresses that this node would be the first one to hold. Pure. */
export function listNewcomers(seats: readonly PlannedSeat[], view: SeatsView): PlacedAddress[] {
  return seats
    .filter((seat) => isHeld(seat, view))
    .flatMap((seat) => seat.addresses.filter((one) => isNew(one, view)));
}

/** The IPv4 addresses that this node holds for Services. Pure. */
export function listHeld(seats: readonly PlannedSeat[], view: SeatsView): HeldAddress[] {
  const ipvs = findIpvsAddress(seats, view);
  return seats
    .filter((seat) => isHeld(seat, view))
    .filter(({ anchor: { family } }) => family === 'ipv4')
    .flatMap(({ anchor, addresses }) => {
      const held = addresses.filter(({ address: { text } }) => view.here.has(text));
      return held.map((one) => ({ ...one, anchor: anchor.text, shared: ipvs }));
    });
}

/** One that each node has whose kube-proxy is in mode ipvs: a ClusterIP. Services' addresses are there, too. */
function findIpvsAddress(seats: readonly PlannedSeat[], { hostAddresses }: SeatsView): string | undefined {
  const own = new Set(seats.flatMap(({ addresses }) => addresses.map(toText)));
  const isClusterIp = ({ family, address, device }: HostAddress) =>
    device === 'kube-ipvs0' && family === 'ipv4' && !own.has(address);
  return hostAddresses.find(isClusterIp)?.address;
}

function toText({ address }: PlacedAddress): string {
  return address.text;
}

/** The addresses of the seats that this node holds, and that no interface has: keepalived has not put them there yet. Pure. */
export function listMissing(
  seats: readonly PlannedSeat[],
  view: SeatsView,
  used: readonly string[],
): string[] {
  const toKey = (address: string, device: string) => `${address} ${device}`;
  const here = new Set(view.hostAddresses.map(({ address, device }) => toKey(address, device)));
  return seats
    .filter((seat) => isHeld(seat, view))
    .flatMap(({ addresses }) => addresses)
    .filter(({ address: { text }, device }) => !here.has(toKey(text, device)) && !used.includes(text))
    .map(toText);
}

/** The seats as they are to be written, by what newcomers may be held. */
export function limitSeats(
  seats: readonly PlannedSeat[],
  view: SeatsView,
  newcomers: Newcomers,
): PlannedSeat[] {
  return addLeftovers(
    seats.map((seat) => {
      const isToAsk = isHeld(seat, view);
      const addresses = seat.addresses.filter((one) => newcomers.mayHold(one, isToAsk && isNew(one, view)));
      return { ...seat, addresses };
    }),
    view,
  );
}

function isNew({ address: { text } }: PlacedAddress, { here, configured }: SeatsView): boolean {
  return !configured.has(text) && !here.has(text);
}

/**
 * While no keepalived runs, the configuration goes on to have the addresses that a killed one left on the interfaces: the next one
 * removes what its configuration has, and nothing else (keepalived 2.2.7). Pure.
 */
function addLeftovers(seats: readonly PlannedSeat[], view: SeatsView): PlannedSeat[] {
  if (view.isRunning) return [...seats];
  const wanted = new Set(
    seats
      .flatMap(({ anchor, addresses }) => [anchor, ...addresses.map(({ address }) => address)])
      .map(({ text }) => text),
  );
  const leftovers = view.hostAddresses.filter(
    (one) => isWhole(one) && view.configured.has(one.address) && !wanted.has(one.address),
  );
  const [first, ...others] = seats;
  if (first === undefined) return [];
  const places = leftovers.flatMap(({ address: text, device }) => {
    const address = parseAddress(text);
    return address === null ? [] : [{ address, device }];
  });
  return [{ ...first, addresses: [...first.addresses, ...places] }, ...others];
}
