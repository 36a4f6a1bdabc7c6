/**
 * Which local routes name a source for this host's own connections to a virtual IP: docs/adr/0020.
 *
 * Goal: a virtual IP that moves away hangs no program of the host that had it.
 * Tension: a connection from the VIP to the VIP ends with the address. A route that names another source outlives the
 * address, and a kernel that has such a route answers ARP for it.
 * Compromise: the route stands before the kernel's own and never replaces it, so taking it away is always safe; it is
 * there only while the address is, and while an agent runs that watches this.
 */
import { isInSubnet } from '../../lib/address/subnet.ts';
import { type Endpoint } from '../../lib/address/endpoint.ts';
import { sourceRouteCommand } from '../../lib/kernel/tools/source-route.ts';
import { type LocalRoutes, type SourceRoute } from '../../lib/kernel/port.ts';
import { type Config } from '../../config/config.ts';

/** One route to add or to remove. */
export interface RouteChange {
  readonly kind: 'add' | 'remove';
  readonly route: SourceRoute;
  /** For people: half a sentence. */
  readonly reason: string;
  /** The same as a command for a shell. */
  readonly command: string;
}

/** What the changes depend on. */
export type RouteWishes = Pick<Config, 'vips' | 'localClients'>;

/**
 * First what is to be removed of VIPs that want no route: it answers ARP for another node's address. Then what is to be added, and last what
 * that replaces. Pure and total: after these changes there are none.
 */
export function planSourceRoutes(seen: LocalRoutes, { vips, localClients }: RouteWishes): RouteChange[] {
  const addresses = listIpv4(vips);
  const wanted = localClients === 'leave' ? [] : addresses.flatMap((vip) => findWanted(vip, seen, addresses));
  const own = seen.routes.flatMap(({ isOurs, source, ...route }) =>
    isOurs && source !== null ? [{ ...route, source }] : [],
  );
  const removals = own
    .filter((route) => !wanted.some((other) => isSame(route, other)))
    .map((route) => toChange('remove', route, explainRemoval(route, seen, localClients)));
  const isReplaced = ({ route }: RouteChange) => wanted.some(({ address }) => address === route.address);
  return [
    ...removals.filter((change) => !isReplaced(change)),
    ...wanted
      .filter((route) => !own.some((other) => isSame(route, other)))
      .map((route) => toChange('add', route, 'their connections survive a move of the VIP')),
    ...removals.filter(isReplaced),
  ];
}

/** What removes every route of ours, or those of some virtual IPs. Pure and total. */
export function planRouteRemoval(seen: LocalRoutes, vips: readonly Endpoint[] | null): RouteChange[] {
  const isMeant = (address: string) => vips?.some((vip) => vip.address === address) ?? true;
  const own = { ...seen, routes: seen.routes.filter(({ address }) => isMeant(address)) };
  return planSourceRoutes(own, { vips: [], localClients: 'leave' });
}

function findSource({ addresses, routes }: LocalRoutes, { address }: Endpoint): string | null {
  const isHeld = addresses.some((one) => one.address === address);
  return isHeld ? (routes.find((route) => route.address === address)?.source ?? null) : null;
}

/** By address, of virtual IPs that this host holds: the source of its own connections to it. None of IPv6. Pure. */
export function findSources(seen: LocalRoutes, vips: readonly Endpoint[]): ReadonlyMap<string, string> {
  return new Map(
    vips.flatMap((vip) => {
      const source = findSource(seen, vip);
      return source === null ? [] : [[vip.address, source] as const];
    }),
  );
}

function findWanted(vip: string, seen: LocalRoutes, vips: readonly string[]): SourceRoute[] {
  const held = seen.addresses.find(({ address }) => address === vip);
  if (held === undefined || hasForeignSource(vip, seen)) return [];
  const source = chooseSource(vip, held.device, seen, vips);
  return source === null ? [] : [{ address: vip, device: held.device, source }];
}

/** The kernel itself names the primary address where the VIP is a secondary one (10.0.0.50/24 beside 10.0.0.1/24); others may have a route of their own. */
function hasForeignSource(vip: string, { addresses, routes }: LocalRoutes): boolean {
  const first = routes.find(({ address, isOurs }) => address === vip && !isOurs);
  return (
    first !== undefined && first.source !== vip && addresses.some(({ address }) => address === first.source)
  );
}

/** One on the VIP's interface and in its subnet, else one that has a subnet there, else the one that goes everywhere. */
function chooseSource(
  vip: string,
  device: string,
  { addresses, usualSource }: LocalRoutes,
  vips: readonly string[],
): string | null {
  const candidates = addresses.filter(
    ({ family, address, isSource }) => family === 'ipv4' && isSource && !vips.includes(address),
  );
  const there = candidates.filter((one) => one.device === device);
  // A whole prefix is how virtual addresses of others are held: one may move like ours.
  const lasting = there.filter(({ prefixLength }) => prefixLength < wholePrefix);
  const [best] = [
    ...lasting.filter((one) => isInSubnet(vip, one)),
    ...lasting,
    ...candidates.filter(({ address }) => address === usualSource),
    ...there,
  ];
  return best?.address ?? null;
}

const wholePrefix = 32;

function explainRemoval(
  { address, source }: SourceRoute,
  { addresses }: LocalRoutes,
  setting: RouteWishes['localClients'],
): string {
  const isHere = (text: string) => addresses.some((one) => one.address === text);
  if (!isHere(address)) return `${address} is no longer on this host`;
  if (!isHere(source)) return `${source} is no longer on this host`;
  return setting === 'leave' ? 'no agent maintains it' : 'vipnat prefers another route or source';
}

function toChange(kind: RouteChange['kind'], route: SourceRoute, reason: string): RouteChange {
  return { kind, route, reason, command: sourceRouteCommand(kind, route) };
}

function listIpv4(vips: readonly Endpoint[]): string[] {
  return [...new Set(vips.filter(({ family }) => family === 'ipv4').map(({ address }) => address))];
}

function isSame(one: SourceRoute, other: SourceRoute): boolean {
  return one.address === other.address && one.device === other.device && one.source === other.source;
}
