import { type Address } from '../../lib/address/address.ts';
import { type AddressPool } from '../../lib/services/objects.ts';
import { hashToNumber } from './address-walk.ts';
import { listLasting } from './seats.ts';

/** The index of the seat that an address of a pool gets: one of its family, by its text. */
export function chooseSeat(address: Address, pool: AddressPool | undefined): number {
  const seats = pool === undefined ? [] : listLasting(pool, address.family);
  const hash = hashToNumber(address.text);
  // Of a pool whose seats are not known yet, as many as it asks for: it moves once they are, if it has to.
  return seats[hash % seats.length]?.index ?? hash % (pool?.spec.seats ?? 1);
}

/** The same for an address that has a seat: it keeps the seat as long as that lasts. */
export function keepSeat(address: Address, seat: number, pool: AddressPool | undefined): number {
  const seats = pool === undefined ? [] : listLasting(pool, address.family);
  return seats.length === 0 || seats.some(({ index }) => index === seat) ? seat : chooseSeat(address, pool);
}
