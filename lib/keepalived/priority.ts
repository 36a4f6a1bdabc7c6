/**
 * Of the node that shall hold the address first. A backup waits three adverts and (256 - priority)/256 of one (RFC 9568, section
 * 6.1), so a high priority is a quick failover; above it is room for a person's own.
 */
const highestPriority = 250;

/** From one node to the next: of two that miss the same advert, one is heard before the other's time is over. */
const step = 10;

/** A node's priority, 1 to 250, by its place among those that may hold an address: 0 is the first. Pure. */
export function toPriority(place: number): number {
  return Math.max(1, highestPriority - step * place);
}
