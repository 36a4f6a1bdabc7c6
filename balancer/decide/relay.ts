/**
 * Policy Local where one node holds the address and others have pods, too. The node that holds it sends packets from outside on to
 * a node with pods, as they came. That node translates them and answers the client itself, so pods see the client's own address.
 */
import { type RelayNeeds } from '../table/skeleton.ts';
import { chooseServing, type Backend } from '../../lib/services/endpoints.ts';

/** Where the node that holds the address sends connections. */
export interface Relay {
  /** An endpoint that takes new connections, by its address and port: with the node to send on to, or null for this one. */
  readonly ends: ReadonlyMap<string, string | null>;
  /** The same endpoints to their weights. */
  readonly weights: ReadonlyMap<string, number>;
  /**
   * Nodes to an endpoint of each: packets take the same way as to the endpoint. Also nodes whose endpoints take no new connection,
   * because they have open ones.
   */
  readonly nodes: ReadonlyMap<string, string>;
  /** Interfaces by which packets from outside come, see `findUplinks`. When left out: the one that has the address. */
  readonly uplinks?: readonly string[];
}

/** What the table has for all of them together. kube-proxy's virtual servers are there where it has an interface of its own. */
export function findRelayNeeds(relays: readonly Relay[]): RelayNeeds {
  if (relays.length === 0) return 'no relays';
  return relays.some(({ uplinks }) => uplinks !== undefined) ? 'relays past IPVS' : 'relays';
}

/** Where it is decided, and for which protocol. */
interface RelayPlace {
  readonly here: string;
  readonly protocol: string;
  readonly uplinks?: readonly string[] | null;
  /** Addresses that packets reach by a router; none when left out. It sends what is sent on back to the Service's address. */
  readonly routed?: ReadonlySet<string>;
}

/** The nodes with endpoints but this one, to an endpoint of each: one that serves, where there is one. */
export function listNodes(backends: readonly Backend[], here: string): ReadonlyMap<string, string> {
  const placed = backends.filter(({ node }) => node !== null && node !== here);
  // The last one of a node counts.
  return new Map(
    [...placed, ...chooseServing(placed)].map(({ node, address }) => [node ?? '', address] as const),
  );
}

/**
 * Null where no other node has an endpoint that can be reached this way. Endpoints of which nobody says where they are cannot. UDP has no
 * open connections: a client is sent elsewhere as soon as an endpoint takes none.
 */
export function planRelay(
  backends: readonly Backend[],
  { here, protocol, uplinks = null, routed = new Set() }: RelayPlace,
): Relay | null {
  const away = new Set(
    [...listNodes(backends, here)].flatMap(([node, to]) => (routed.has(to) ? [node] : [])),
  );
  const placed = backends.filter(({ node }) => node !== null && !away.has(node));
  const serving = chooseServing(placed);
  // The last one of a node counts: one that serves, where there is one.
  const present = protocol === 'UDP' ? serving : [...placed, ...serving];
  const nodes = new Map(
    present.filter(({ node }) => node !== here).map(({ node, address }) => [node ?? '', address]),
  );
  if (nodes.size === 0) return null;
  const ends = serving.map(
    ({ address, port, node }) => [`${address} . ${port}`, node === here ? null : node] as const,
  );
  const weights = new Map(serving.map(({ address, port, weight }) => [`${address} . ${port}`, weight]));
  return { ends: new Map(ends), weights, nodes, ...(uplinks === null ? {} : { uplinks }) };
}
