import type { Cluster } from './cluster.ts';
import { addressPools, type AddressPool, excludedNodeLabel } from '../../../../lib/api/vipnat.ts';
import { isIPv4 } from 'node:net';
import type { StoredObject } from '../../../support/fakes/object-api.ts';

/** What is wrong with who shall hold addresses, once all nodes are well. */
export function findSeatFaults(cluster: Cluster): string[] {
  const pools = [...cluster.api.list('AddressPool').values()].map((pool) => addressPools.schema.parse(pool));
  return [
    ...findTwins(pools),
    ...pools.flatMap((pool) => [...findLostAddresses(cluster, pool), ...findDrained(cluster, pool)]),
  ];
}

/** Addresses of no seat of their family: no node would hold them. A pool that is refused from the start has none. */
function findLostAddresses(cluster: Cluster, { metadata, status }: AddressPool): string[] {
  const seats = status?.seats ?? [];
  const isSeated = (name: string, seat: unknown) =>
    seats.some(({ index, network }) => index === seat && isIPv4(name) === isIPv4(network));
  return [...cluster.api.list('VirtualIP')]
    .filter(() => seats.length > 0)
    .filter(([name, { spec }]) => spec?.['pool'] === metadata.name && !isSeated(name, spec['seat']))
    .map(
      ([name, { spec }]) =>
        `${name} is of the seat ${metadata.name}/${String(spec?.['seat'])}, which is not there`,
    );
}

/** Seats that have an anchor or a virtual_router_id of another one of their family. */
function findTwins(pools: readonly AddressPool[]): string[] {
  const seats = pools.flatMap(({ metadata, status }) =>
    (status?.seats ?? []).map(({ index, anchor, vrid }) => ({
      name: `${metadata.name}/${index}`,
      numbers: [anchor, `${vrid} of ${anchor.includes(':') ? 'IPv6' : 'IPv4'}`],
    })),
  );
  return seats.flatMap(({ name, numbers }, at) =>
    numbers
      .filter((one) => seats.slice(0, at).some((other) => other.numbers.includes(one)))
      .map((one) => `${name} has ${one}, and another seat too`),
  );
}

/** Nodes that hold a seat although they shall not, and others may. */
function findDrained(cluster: Cluster, { metadata, spec, status }: AddressPool): string[] {
  const isAccepted = status?.conditions?.some(({ type, status: is }) => type === 'Accepted' && is === 'True');
  const drained = (metadata.annotations?.['vipnat.io/drained'] ?? '').split(',');
  const zone = spec.nodeSelector?.matchLabels?.['zone'];
  const able = [...cluster.api.list('Node')].filter(([, node]) => mayHold(node, zone)).map(([name]) => name);
  if (isAccepted !== true) return [];
  return (status?.seats ?? []).flatMap(({ index, nodes }) => {
    const isDrained = (node: string) => drained.includes(node) || drained.includes(`${node}/${index}`);
    const isNeeded = able.every(isDrained);
    return nodes
      .filter((node) => isDrained(node) && !isNeeded)
      .map((node) => `${node} is drained, and may hold ${metadata.name}/${index}`);
  });
}

/** Whether a node may hold addresses of a pool, by its name. */
export function isCandidate({ api }: Cluster, name: string, pool: unknown): boolean {
  const node = api.list('Node').get(name);
  const selector = api.list('AddressPool').get(String(pool))?.spec?.['nodeSelector'];
  const { matchLabels } = (selector ?? {}) as { readonly matchLabels?: { readonly zone?: string } };
  return node !== undefined && mayHold(node, matchLabels?.zone);
}

function mayHold({ metadata: { labels } }: StoredObject, zone: string | undefined): boolean {
  return labels?.[excludedNodeLabel] === undefined && (zone === undefined || labels?.['zone'] === zone);
}
