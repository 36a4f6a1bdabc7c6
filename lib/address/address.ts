import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';

/** An address family, by the name Kubernetes and people use for it. */
export type Family = 'ipv4' | 'ipv6';

/** Both families, in the order in which they are read, written and printed. */
export const families: readonly Family[] = ['ipv4', 'ipv6'];

/** An IP address in canonical text: dotted decimal, or RFC 5952 (lower case, longest zero run compressed). */
export interface Address {
  readonly family: Family;
  readonly text: string;
}

/** What isIP calls 4. Asked first: node:net, which knows the rest, takes 4 ms to load (scripts/late-require.cjs). */
const fourParts = /^(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?!$)|$)){4}$/;

/**
 * Reads one IP address. Answers null for anything else: names, prefixes, zones (`fe80::1%eth0`), brackets,
 * surrounding spaces, and IPv4 written with leading zeros, in octal or with fewer than four parts.
 */
export function parseAddress(text: string): Address | null {
  if (fourParts.test(text)) return { family: 'ipv4', text };
  if (isIP(text) !== 6 || text.includes('%')) return null;
  return { family: 'ipv6', text: ipaddr.IPv6.parse(spellOut(text)).toRFC5952String() };
}

/** With its last four bytes as two groups: ipaddr.js 2.2 takes `::1.2.3.4` for `::ffff:1.2.3.4`. */
function spellOut(text: string): string {
  const [, start = '', four] = /^(.*:)([\d.]+\.[\d.]+)$/.exec(text) ?? [];
  if (four === undefined) return text;
  const [first = 0, second = 0, third = 0, last = 0] = four.split('.').map(Number);
  return `${start}${((first << 8) | second).toString(16)}:${((third << 8) | last).toString(16)}`;
}
