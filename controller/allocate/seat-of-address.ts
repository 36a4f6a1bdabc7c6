import { type Address } from '../../lib/address/address.ts';
import { type AddressPool, type Seat } from '../../lib/services/objects.ts';
import { hashToNumber } from './address-walk.ts';

/**
 * The index of the seat that an address of a pool gets, whoever has the address. An anchor is held with the seat that it names. Any
 * other address gets a seat by its text.
 */
export function chooseSeat(address: Address, pool: AddressPool | undefined): number {
  // Of a pool whose seats are not known yet, as many as it asks for.
  const count = countSeats(pool) || (pool?.spec.seats ?? 0);
  return findAnchored(address, pool) ?? (count > 0 ? hashToNumber(address.text) % count : 0);
}

/** The same for an address that has a seat: it keeps the seat as long as it can. */
export function keepSeat(address: Address | null, seat: number, pool: AddressPool | undefined): number {
  const count = countSeats(pool);
  const anchored = address === null ? null : findAnchored(address, pool);
  return anchored ?? (count === 0 || seat < count ? seat : seat % count);
}

/** Whether a node holds the address for the seat alone, whoever has it. */
export function isAnchor(address: Address, pool: AddressPool): boolean {
  return findAnchored(address, pool) !== null;
}

/** Seats that the pool no longer asks for stay only until no address is there, so no address comes there. */
function listLasting(pool: AddressPool | undefined): readonly Seat[] {
  return (pool?.status?.seats ?? []).filter(({ index }) => index < (pool?.spec.seats ?? 0));
}

/** 0 for a pool that is gone, or has no seats yet. */
function countSeats(pool: AddressPool | undefined): number {
  return listLasting(pool).length;
}

function findAnchored({ text }: Address, pool: AddressPool | undefined): number | null {
  return listLasting(pool).find(({ anchors }) => anchors.includes(text))?.index ?? null;
}
