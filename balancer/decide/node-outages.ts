import { chooseServing, type Backend } from '../../lib/services/endpoints.ts';

/** The nodes that do not answer. */
export interface NodeOutages {
  /** Their endpoints take no new connection. */
  readonly out: ReadonlySet<string>;
  /** Those of them whose open connections are lost, too: their endpoints are as gone. */
  readonly lost: ReadonlySet<string>;
}

/** All nodes answer, or nobody asks. */
export const noOutages: NodeOutages = { out: new Set(), lost: new Set() };

/**
 * The endpoints of a port as they are with these outages: those of nodes that are out are as not ready. Where nobody would be left, all are as
 * before: connections are rather sent to nodes that do not answer than nowhere. Pure.
 */
export function applyOutages(backends: readonly Backend[], { out, lost }: NodeOutages): readonly Backend[] {
  if (!backends.some(({ node }) => node !== null && out.has(node))) return backends;
  const left = backends
    .filter(({ node }) => node === null || !lost.has(node))
    .map((one) =>
      one.node !== null && out.has(one.node) ? { ...one, isReady: false, isServingLast: false } : one,
    );
  return chooseServing(left).length > 0 ? left : backends;
}

/** Those of the endpoints that take no new connection because of these outages. Pure. */
export function listSilent(backends: readonly Backend[], { out }: NodeOutages): readonly Backend[] {
  return backends.filter(({ node, isReady }) => node !== null && out.has(node) && !isReady);
}
