import { type AddressPool, addressPools } from '../../../../lib/services/objects.ts';
import { excludedNodeLabel } from '../../../../lib/services/names.ts';
import { type StoredObject } from '../../../support/fakes/object-api.ts';
import { type Cluster } from './cluster.ts';

/** What is wrong with who shall hold addresses, once all nodes are well. */
export function findSeatFaults(cluster: Cluster): string[] {
  const pools = [...cluster.api.list('AddressPool').values()].map((pool) => addressPools.schema.parse(pool));
  return pools.flatMap((pool) => [
    ...findLostAddresses(cluster, pool),
    ...findStrayAnchors(cluster, pool),
    ...findDrained(cluster, pool),
  ]);
}

/** Addresses of a seat that is not there: no node would hold them. A pool that is refused from the start has none. */
function findLostAddresses(cluster: Cluster, { metadata, status }: AddressPool): string[] {
  const seats = new Set((status?.seats ?? []).map(({ index }) => index));
  return [...cluster.api.list('VirtualIP')]
    .filter(() => seats.size > 0)
    .filter(([, { spec }]) => spec?.['pool'] === metadata.name && !seats.has(Number(spec['seat'])))
    .map(
      ([name, { spec }]) =>
        `${name} is of the seat ${metadata.name}/${String(spec?.['seat'])}, which is not there`,
    );
}

/** Addresses that are held with the seat whose anchor they are, and not with the one that their object names. */
function findStrayAnchors(cluster: Cluster, { metadata, spec: { seats }, status }: AddressPool): string[] {
  const lasting = (status?.seats ?? []).filter(({ index }) => index < seats);
  return lasting.flatMap(({ index, anchors }) =>
    anchors.flatMap((anchor) => {
      const spec = cluster.api.list('VirtualIP').get(anchor.replaceAll(':', '-'))?.spec;
      if (spec?.['pool'] !== metadata.name || spec['seat'] === index) return [];
      return [
        `${anchor} is the anchor of ${metadata.name}/${index}, and said to be of ${String(spec['seat'])}`,
      ];
    }),
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

function mayHold({ metadata }: StoredObject, zone: string | undefined): boolean {
  const labels = (metadata['labels'] ?? {}) as Readonly<Record<string, string | undefined>>;
  return labels[excludedNodeLabel] === undefined && (zone === undefined || labels['zone'] === zone);
}
