import { type AddressPool, type VirtualIp } from '../../lib/services/objects.ts';
import { type Service } from '../../lib/services/services.ts';
import { readWishes } from '../../lib/services/wishes.ts';

/** Ports that two Services have in common, as `TCP/80`. */
export function listCommonPorts(one: Service, other: Service): string[] {
  const theirs = new Set(listPorts(other));
  return listPorts(one).filter((port) => theirs.has(port));
}

/**
 * Why a Service cannot have an address together with those that have it; null when it can. All have the same key and ports
 * of their own. A key is a namespace's own, unless the pool lets namespaces share: whoever guesses one gets no port of another's
 * address. Either all have the traffic policy Cluster, or all have the same pods: only then is every node that has pods of the
 * one a node that has pods of the other.
 */
export function findShareProblem(
  service: Service,
  { spec }: VirtualIp,
  {
    pool,
    getService,
  }: { readonly pool: AddressPool; readonly getService: (key: string) => Service | undefined },
): string | null {
  const { shareKey } = readWishes(service);
  for (const { namespace, name } of spec.services) {
    const key = `${namespace}/${name}`;
    const other = getService(key);
    if (spec.shareKey === '' || spec.shareKey !== shareKey || other === undefined) return `${key} has it`;
    if (namespace !== service.metadata.namespace && !pool.spec.shareAcrossNamespaces)
      return `${key} of another namespace has it, and the AddressPool ${pool.metadata.name} lets no namespaces share`;
    const [port] = listCommonPorts(service, other);
    if (port !== undefined) return `${key}, which shares it, has the port ${port}, too`;
    if (!haveSamePolicy(service, other))
      return `${key}, which shares it, has other pods, and externalTrafficPolicy is not Cluster for both`;
  }
  return null;
}

function listPorts({ spec }: Service): string[] {
  return (spec.ports ?? []).map(({ protocol, port }) => `${protocol}/${port}`);
}

/** Equal selectors are of the same pods in one namespace only. */
function haveSamePolicy(one: Service, other: Service): boolean {
  const areCluster = [one, other].every(({ spec }) => spec.externalTrafficPolicy === 'Cluster');
  const [selector, theirs] = [toSelectorText(one), toSelectorText(other)];
  const haveSamePods = one.metadata.namespace === other.metadata.namespace && selector === theirs;
  return areCluster || (haveSamePods && selector !== '[]');
}

function toSelectorText({ spec }: Service): string {
  return JSON.stringify(Object.entries(spec.selector ?? {}).sort(([a], [b]) => (a < b ? -1 : 1)));
}
