/**
 * How large a Service's part of the tables is, before anything of it is made. A tenant may write thousands of ports and of endpoints, and each
 * port has all of them.
 */
import { readAnnotation } from '../../lib/services/wishes.ts';
import { isLocal } from './choose-backends.ts';
import { countHashSlots, maxSlots } from './slots.ts';
import { type BalancedService } from './balanced-service.ts';

/** A Service with more elements and rules is kube-proxy's. nft takes three seconds for as many, and is ended after 15 s, with all other Services. */
const maxParts = 300_000;

/** A chain, its rules, and what leads to it. */
const ofChain = 4;

/**
 * Clients or connections are remembered in a set. For 65,535 of them the kernel takes two megabytes and some milliseconds at once (measured with
 * Linux 6.18: 100 sets took 200 MB, and up to 0.8 s). Source: nft_rhash_init.
 */
const ofMemory = 250;

/** Connections of each endpoint of a port are counted: half a kilobyte, and a microsecond of a processor after each count. */
const ofCount = 10;

/** Why a Service is too large for the tables: a clause; null where it is not. Pure. */
export function describeExcess({ service, slices, weights }: BalancedService): string | null {
  const endpoints = slices.flatMap((slice) => slice.endpoints ?? []);
  const [ports, count] = [service.spec.ports?.length ?? 0, endpoints.length];
  const slots = countSlotParts(readAnnotation(service, 'method'), count, weights.size > 0);
  const kept = service.spec.sessionAffinity === 'ClientIP' ? count * ofMemory : 0;
  const nodes = isLocal(service) ? new Set(endpoints.map(({ nodeName }) => nodeName)).size : 0;
  const sentOn = nodes === 0 ? 0 : countHashSlots(count) + nodes * ofMemory;
  if (ports * (ofChain + slots + kept + sentOn) <= maxParts) return null;
  return `${count} endpoints of each of ${ports} ports are more than its tables can have`;
}

/** With the method `lc`, connections of each endpoint are counted, too. */
function countSlotParts(method: string | undefined, endpoints: number, hasWeights: boolean): number {
  if (method === 'hash') return countHashSlots(endpoints);
  if (method === 'lc') return Math.max(maxSlots, endpoints) + endpoints * ofCount;
  return hasWeights ? Math.max(maxSlots, endpoints) : endpoints;
}
