import ipaddr from 'ipaddr.js';
import { parseAddress } from './address.ts';

/** An address as it is in a packet: 4 or 16 bytes. Takes canonical text. */
export function toAddressBytes(text: string): Buffer {
  return Buffer.from(ipaddr.parse(text).toByteArray());
}

/** The canonical text of an address as it is in a packet; null for what is neither 4 nor 16 bytes. */
export function readAddressBytes(bytes: Buffer | undefined): string | null {
  if (bytes?.length === 4) return bytes.join('.');
  if (bytes?.length !== 16) return null;
  return parseAddress(bytes.toString('hex').match(/.{4}/g)?.join(':') ?? '')?.text ?? null;
}
