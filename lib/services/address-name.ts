import { type Address, parseAddress } from '../address/address.ts';

/**
 * The name of an address's VirtualIP: `10.0.9.10`, or `fd00-9--a` for fd00:9::a. A name begins and ends with a letter or
 * digit (RFC 1123), so `::` at an end gets its zero: `fd00-9--0`.
 */
export function toObjectName({ text }: Address): string {
  return text.replace(/^:/, '0:').replace(/:$/, ':0').replaceAll(':', '-');
}

/** The address that a VirtualIP's name stands for; null when it stands for none, or is not how we write it. */
export function parseObjectName(name: string): Address | null {
  const address = parseAddress(name.includes('.') ? name : name.replaceAll('-', ':'));
  return address !== null && toObjectName(address) === name ? address : null;
}
