import ipaddr from 'ipaddr.js';

/** How many leading bits two addresses share; 0 for addresses of two families. Takes canonical texts. */
export function countCommonBits(left: string, right: string): number {
  const [a, b] = [left, right].map((text) => ipaddr.parse(text).toByteArray());
  if (a === undefined || b === undefined || a.length !== b.length) return 0;
  const at = a.findIndex((byte, index) => byte !== b[index]);
  return at < 0 ? 8 * a.length : 8 * at + Math.clz32((a[at] ?? 0) ^ (b[at] ?? 0)) - 24;
}
