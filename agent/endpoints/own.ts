import { type Family } from '../../lib/address/address.ts';
import { type Endpoint, formatEndpoint } from '../../lib/address/endpoint.ts';
import { countCommonBits } from '../../lib/address/prefix.ts';
import { classifyAddress } from '../../lib/address/scope.ts';
import { type LocalAddress } from '../../lib/kernel/port.ts';

/** What this host's own apiserver is looked for by, in one family. */
export interface OwnSources {
  readonly family: Family;
  readonly addresses: readonly LocalAddress[];
  readonly vips: readonly Endpoint[];
  /** The apiservers that the first source names: they tell the port. */
  readonly listed: readonly Endpoint[];
  /** Whom other sources name. */
  readonly others: readonly Endpoint[];
}

/** The addresses of Services, which are no host's (kube-proxy's ipvs mode). */
const serviceDevice = 'kube-ipvs0';

/**
 * Where this host's own apiserver would be if it had one that nobody lists: its address may have changed since the lists
 * were made. One that another source names, else at the address most like the VIPs and the other masters: a pod network's is
 * not. Null where one of this host's is listed, and where nobody is. Pure.
 */
export function findOwnEndpoint({ family, addresses, vips, listed, others }: OwnSources): Endpoint | null {
  const { port } = listed[0] ?? {};
  const own = addresses.filter((one) => one.family === family && isHostAddress(one, vips));
  const texts = new Set(own.map(({ address }) => address));
  if (port === undefined || listed.some(({ address }) => texts.has(address))) return null;
  const named = others.find(({ address }) => texts.has(address));
  if (named !== undefined) return named;
  const peers = [...vips, ...listed].filter((one) => one.family === family);
  const likeness = ({ address }: LocalAddress) =>
    Math.max(...peers.map((peer) => countCommonBits(address, peer.address)));
  const [best] = own.toSorted((a, b) => likeness(b) - likeness(a));
  return best === undefined ? null : { family, address: best.address, port };
}

function isHostAddress({ family, address, device }: LocalAddress, vips: readonly Endpoint[]): boolean {
  if (device === serviceDevice || vips.some((vip) => vip.address === address)) return false;
  return classifyAddress({ family, text: address }) === 'unicast';
}

/** Those that are not this one. Pure. */
export function without(endpoints: readonly Endpoint[], one: Endpoint | null): Endpoint[] {
  return endpoints.filter((other) => one === null || formatEndpoint(other) !== formatEndpoint(one));
}
