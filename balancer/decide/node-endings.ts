import { type Backend } from '../../lib/services/endpoints.ts';
import { type NodeEnding } from '../../lib/services/followed-nodes.ts';

/** The nodes whose pods are to get no new connection, to why. */
export type NodeEndings = ReadonlyMap<string, NodeEnding>;

/** No node ends, or nobody says it. */
export const noEndings: NodeEndings = new Map();

/**
 * The endpoints of a port as they are with these nodes: those of nodes that end are as pods that are being deleted. So they keep their open
 * connections, and serve on where nobody else is ready. Pure.
 */
export function applyEndings(
  backends: readonly Backend[],
  endings: Pick<NodeEndings, 'has'>,
): readonly Backend[] {
  const isOnEnding = ({ node }: Backend) => node !== null && endings.has(node);
  if (!backends.some(isOnEnding)) return backends;
  return backends.map((one) =>
    isOnEnding(one)
      ? { ...one, isReady: false, isEnding: true, isServingLast: one.isReady || one.isServingLast }
      : one,
  );
}
