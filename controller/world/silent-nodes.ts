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

/** The nodes that will not hear of an address that is given now. */
export function listAbsent({ silentNodes, nodes }: Silence): AbsentNode[] {
  return [...silentNodes]
    .filter(([name]) => nodes.has(name))
    .map(([node, { renewal }]) => ({ node, renewal }))
    .sort((one, other) => (one.node < other.node ? -1 : 1));
}
