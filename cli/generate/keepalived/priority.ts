import ipaddr from 'ipaddr.js';

/**
 * Of the master with the lowest address. A backup waits three adverts and (256 - priority)/256 of one (RFC 9568, section
 * 6.1), so a high priority is a quick failover; above it is room for a person's own.
 */
const highestPriority = 250;

/** From one master to the next: of two that miss the same advert, one is heard before the other's time is over. */
const step = 10;

/** Where nobody else is known, all nodes have the same: VRRP then prefers the higher address. */
export const commonPriority = 200;

/**
 * A node's priority, 1 to 250: by its place among the masters, in the order of their addresses. Equal on all nodes that
 * know the same masters. Pure.
 */
export function rankPriority(own: string, peers: readonly string[]): number {
  const sorted = [own, ...peers].sort(compareAddresses);
  return Math.max(1, highestPriority - step * sorted.indexOf(own));
}

/** By value, so that .9 comes before .10. */
function compareAddresses(left: string, right: string): number {
  return Buffer.compare(toBytes(left), toBytes(right));
}

function toBytes(text: string): Buffer {
  return Buffer.from(ipaddr.parse(text).toByteArray());
}
