/**
 * Which slot leads to which endpoint. A connection gets a slot by chance, in turn or by its client's address; so as many slots
 * as endpoints are even shares.
 */

/** Of the hash of a client's address: the same on every node, so that a client keeps its endpoint when the address moves. */
export const hashSeed = '0x7669706e';

/** One slot for each, in the order of before as far as that goes: what stays keeps its slot, and those behind fill the gaps. */
export function fillSlots(before: readonly string[], wanted: readonly string[]): string[] {
  const left = new Set(wanted);
  const slots = Array.from({ length: left.size }, (_, at) => {
    const kept = before[at];
    return kept !== undefined && left.delete(kept) ? kept : null;
  });
  const fill = left.values();
  return slots.map((kept) => kept ?? (fill.next().value as string));
}

/** Numbers of slots for clients that keep their endpoint while others come and go: primes, as the permutations need. */
const tableSizes = [251, 1021, 4093, 16_381] as const;

/** So many slots for each endpoint, at least: shares differ by one slot. */
const slotsPerEndpoint = 8;

/**
 * Slots for clients by their address: when an endpoint goes, few clients but its own get another. The same on every node.
 * Source: Maglev (NSDI 2016), 3.4.
 */
export function hashSlots(wanted: readonly string[]): string[] {
  const size = tableSizes.find((count) => count >= wanted.length * slotsPerEndpoint) ?? tableSizes[3];
  const walks = wanted.map((endpoint) => ({
    endpoint,
    at: hash(`${endpoint} offset`) % size,
    step: (hash(`${endpoint} step`) % (size - 1)) + 1,
  }));
  const slots = new Array<string | null>(size).fill(null);
  if (walks.length === 0) return [];
  for (let filled = 0; filled < size;) {
    for (const walk of walks) {
      if (filled === size) break;
      while (slots[walk.at] !== null) walk.at = (walk.at + walk.step) % size;
      slots[walk.at] = walk.endpoint;
      filled += 1;
    }
  }
  return slots.map((endpoint) => endpoint ?? '');
}

/** FNV-1a of 32 bits, mixed once more: addresses of pods differ in their last characters only. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (const character of text) value = Math.imul(value ^ (character.codePointAt(0) ?? 0), 0x01000193);
  value = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  return (value ^ (value >>> 13)) >>> 0;
}
