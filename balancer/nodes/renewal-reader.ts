import { type ObjectClient } from '../../lib/kubernetes/object-client.ts';
import { parseNodeLease, toLeaseName, toLeaseResource } from '../../lib/services/node-report.ts';

/** An apiserver answers in milliseconds. */
const limitMs = 4000;

/**
 * Reads when a node's balancer has renewed its Lease: a text that each renewal changes; null where there is none. What it returns rejects with a sentence where the API does
 * not answer, or refuses it.
 */
export function createRenewalReader(
  client: Pick<ObjectClient, 'read'>,
  namespace: string,
): (node: string) => Promise<string | null> {
  const { path, schema } = toLeaseResource(namespace);
  return async (node) => {
    const name = toLeaseName(node);
    const read = await client.read(
      { title: `reading Lease ${name}`, path: `${path}/${name}`, schema },
      limitMs,
    );
    if (read.outcome === 'gone') return null;
    if (read.outcome !== 'found') throw new Error(read.words);
    return parseNodeLease(read.object)?.renewal ?? null;
  };
}
