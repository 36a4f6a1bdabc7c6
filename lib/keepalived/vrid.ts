import ipaddr from 'ipaddr.js';
import { type Address } from '../address/address.ts';
import { VipnatError } from '../text/errors.ts';

/** A virtual_router_id is one byte, and 0 is reserved (RFC 9568, section 5.2.3). */
const largestVrid = 255;

/** All of them. */
export const allVrids: readonly number[] = Array.from({ length: largestVrid }, (_, index) => index + 1);

/** Those that `51-60` names, or `51`; none for anything else. */
export function parseVrids(text: string): readonly number[] {
  const [, first = '', last = first] = /^(\d{1,3})(?:-(\d{1,3}))?$/.exec(text) ?? [];
  return allVrids.filter((vrid) => first !== '' && vrid >= Number(first) && vrid <= Number(last));
}

/**
 * The virtual_router_id of a VIP: its last octet, for IPv6 its last byte, plus one. All nodes compute the same.
 * @throws VipnatError CONFIG_INVALID when that would be 256.
 */
export function computeVrid({ text }: Address): number {
  const vrid = (ipaddr.parse(text).toByteArray().at(-1) ?? 0) + 1;
  if (vrid <= largestVrid) return vrid;
  throw new VipnatError(
    'CONFIG_INVALID',
    `${text} has no virtual router id: its last byte plus one is ${vrid}, and the largest is ${largestVrid}. ` +
      `Choose one with --vrid: a number from 1 to ${largestVrid} that is free on that network`,
  );
}

/** The same; null for an address that has none. */
export function findVrid(address: Address): number | null {
  try {
    return computeVrid(address);
  } catch {
    return null;
  }
}
