import { type VrrpAdvert } from '../../../lib/keepalived/advert.ts';

/** Whether an advert says that its sender holds an address: one of priority 0 gives it up (RFC 9568, section 5.2.4). */
export function advertises({ addresses, priority }: VrrpAdvert, address: string): boolean {
  return priority > 0 && addresses.includes(address);
}

/**
 * Who else advertises an address at the same time: everybody when two others do, and one when this host has it. A
 * handover is no such thing: there one ends before the next begins. Pure.
 */
export function findDoubles(
  adverts: readonly VrrpAdvert[],
  address: string,
  local: ReadonlySet<string>,
): string[] {
  const spans = new Map<string, { first: number; last: number }>();
  for (const [index, advert] of adverts.entries()) {
    if (!advertises(advert, address)) continue;
    const source = local.has(advert.source) ? 'here' : advert.source;
    spans.set(source, { first: spans.get(source)?.first ?? index, last: index });
  }
  const others = [...spans].filter(([source, { first, last }]) => source !== 'here' && last > first);
  if (local.has(address) && !spans.has('here')) return others.map(([source]) => source);
  return others
    .filter(([source, span]) =>
      [...spans].some(
        ([rival, other]) => rival !== source && other.first < span.last && span.first < other.last,
      ),
    )
    .map(([source]) => source);
}
