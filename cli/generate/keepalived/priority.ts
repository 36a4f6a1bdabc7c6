import ipaddr from 'ipaddr.js';
import { toPriority } from '../../../lib/keepalived/priority.ts';

/** Where nobody else is known, all nodes have the same: VRRP then prefers the higher address. */
export const commonPriority = 200;

/**
 * A node's priority, 1 to 250: by its place among the masters, in the order of their addresses. Equal on all nodes that
 * know the same masters. Pure.
 */
export function rankPriority(own: string, peers: readonly string[]): number {
  const sorted = [own, ...peers].sort(compareAddresses);
  return toPriority(sorted.indexOf(own));
}

/** By value, so that .9 comes before .10. */
function compareAddresses(left: string, right: string): number {
  return Buffer.compare(toBytes(left), toBytes(right));
}

function toBytes(text: string): Buffer {
  return Buffer.from(ipaddr.parse(text).toByteArray());
}
