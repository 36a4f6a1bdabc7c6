/**
 * Nodes that may serve an address on, although their Lease is over: a node that only the API cannot reach renews its own table. It is
 * off, or cut off: nobody here can tell. So what it had goes to no other Service before it reports again, or its Node is deleted.
 */
import { isProgrammed } from '../../lib/services/node-report.ts';
import { type AbsentNode, type VirtualIp } from '../../lib/services/objects.ts';
import { type World } from './world.ts';

type Silence = Pick<World, 'silentNodes' | 'nodes'>;

/** The names of the nodes that may serve an address as it was before, in order. */
export function listSilentHolders({ metadata, spec }: VirtualIp, { silentNodes, nodes }: Silence): string[] {
  return [...silentNodes]
    .filter(([name, { renewal, report }]) => {
      const isAbsent = spec.absent.some((absent) => absent.node === name && absent.renewal === renewal);
      return nodes.has(name) && !isAbsent && !isProgrammed(report, 'virtualips', metadata.resourceVersion);
    })
    .map(([name]) => name)
    .sort();
}

/**
 * The nodes that will not hear of an address that is taken now. Not those that may serve it as it was: who takes again what it gives back
 * knows as little of them as before. `existing` is its VirtualIP, null where it has none.
 */
export function listAbsent(silence: Silence, existing: VirtualIp | null): AbsentNode[] {
  const isLeft = existing !== null && existing.spec.leaving.length > 0;
  const holders = isLeft ? listSilentHolders(existing, silence) : [];
  return [...silence.silentNodes]
    .filter(([name]) => silence.nodes.has(name) && !holders.includes(name))
    .map(([node, { renewal }]) => ({ node, renewal }))
    .sort((one, other) => (one.node < other.node ? -1 : 1));
}
