import { addressList } from './addresses.ts';
import { type NetlinkQuestioner } from './netlink.ts';
import { type NetlinkMessage, visitAttributes, visitWith } from './netlink-messages.ts';

/** How many addresses there are, and a number that changes with them, their interfaces and whether they can be used. */
export interface Digest {
  readonly count: number;
  readonly sum: number;
}

/**
 * Reads the addresses of this host again and again, and keeps none. kube-proxy's mode ipvs gives a host thousands: what comes in the same
 * bytes as before is not looked into.
 */
export class AddressDigests {
  #parts: readonly Part[] = [];

  /** Takes a client of the protocol route. One at a time. Rejects with NETLINK_FAILED. */
  async read(client: NetlinkQuestioner): Promise<Digest> {
    const parts: Part[] = [];
    const read = (datagram: Buffer, sequence: number) => {
      const known = this.#parts[parts.length];
      const part = known?.bytes.equals(datagram) === true ? known : digest(datagram, sequence);
      parts.push(part);
      return part.rest;
    };
    const { question: type, payload } = addressList;
    await client.request({ type, payload, isDump: true, subject: 'its addresses', read });
    this.#parts = parts;
    return {
      count: parts.reduce((total, part) => total + part.count, 0),
      // Not by their order: the kernel's parts are of other sizes each time at first.
      sum: parts.reduce((total, part) => (total + part.sum) | 0, 0),
    };
  }
}

/** A datagram, and what it comes to. */
interface Part extends Digest {
  readonly bytes: Buffer;
  readonly rest: readonly NetlinkMessage[];
}

function digest(bytes: Buffer, sequence: number): Part {
  let [count, sum] = [0, 0];
  const read = visitWith((datagram, start, end) => {
    count += 1;
    sum = (sum + digestAddress(datagram, start, end)) | 0;
  });
  return { bytes, rest: read(bytes, sequence), count, sum };
}

// linux/if_addr.h: IFA_ADDRESS, IFA_LOCAL and IFA_FLAGS. Others say for how long an address is there still, which changes each second.
const telling: readonly number[] = [1, 2, 8];
const { leastBytes: ifaddrmsgBytes } = addressList;

function digestAddress(datagram: Buffer, start: number, end: number): number {
  const device = start + 4;
  let value = mix(fnvBasis, datagram, { from: device, to: Math.min(start + ifaddrmsgBytes, end) });
  visitAttributes(datagram, start + ifaddrmsgBytes, end, (type, from, to) => {
    if (telling.includes(type)) value = mix(value, datagram, { from, to });
  });
  return value;
}

/** FNV-1a with 32 bits. */
function mix(
  before: number,
  bytes: Buffer,
  { from, to }: { readonly from: number; readonly to: number },
): number {
  let value = before;
  for (let at = from; at < to; at += 1) value = Math.imul(value ^ (bytes[at] ?? 0), fnvPrime);
  return value;
}

const fnvBasis = 0x811c9dc5;
const fnvPrime = 0x01000193;
