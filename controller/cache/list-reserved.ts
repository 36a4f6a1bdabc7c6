/** Which addresses objects of the API have for others than Services of ours. */
import { parseAddress } from '../../lib/address/address.ts';
import { findVrid } from '../../lib/keepalived/vrid.ts';
import { type EndpointSlice } from '../../lib/kubernetes/resources.ts';
import { type Node, type ServiceCidr } from '../../lib/services/cluster.ts';
import { type NodeReport } from '../../lib/services/node-report.ts';
import { parseRange } from '../../lib/services/ranges.ts';
import { type Service } from '../../lib/services/services.ts';
import { isForUs } from '../../lib/services/wishes.ts';
import { reserveAddress, type ReservedRange } from './judge-pools.ts';

/** A node's own addresses, and those of its pods. */
export function listOfNode({ metadata: { name }, spec, status }: Node): ReservedRange[] {
  const own = (status?.addresses ?? []).map(({ address }) => {
    const reserved = reserveAddress(address, `the node ${name}`);
    return reserved === null ? null : { ...reserved, isReported: true as const };
  });
  const ranges = spec?.podCIDRs ?? [spec?.podCIDR ?? ''];
  return [...own, ...ranges.map((text) => reserveRange(text, `the pods of the node ${name}`))].filter(
    isThere,
  );
}

/** ClusterIPs that Services get. */
export function listOfServiceCidr(cidr: ServiceCidr | null): ReservedRange[] {
  if (cidr === null) return [];
  const {
    metadata: { name },
    spec,
  } = cidr;
  return (spec?.cidrs ?? []).map((text) => reserveRange(text, `the ServiceCIDR ${name}`)).filter(isThere);
}

/** ClusterIPs that a Service has: where the API has no ServiceCIDRs, nothing else tells of them. */
export function listOfService(service: Service | null): ReservedRange[] {
  if (service === null) return [];
  const {
    metadata: { namespace, name },
    spec,
  } = service;
  const owner = `the Service ${namespace}/${name}, as its ClusterIP`;
  const texts = spec.clusterIPs ?? [spec.clusterIP ?? ''];
  return texts.map((text) => reserveAddress(text, owner)).filter(isThere);
}

/** Those of apiservers. */
export function listOfApiservers(slice: EndpointSlice | null): ReservedRange[] {
  const texts = (slice?.endpoints ?? []).flatMap(({ addresses }) => addresses);
  return texts.map((text) => reserveAddress(text, 'an apiserver')).filter(isThere);
}

/** Virtual IPs of the API that a node's balancer has found in the rules there. */
export function listOfReport(report: NodeReport | null): ReservedRange[] {
  return (report?.apiVips ?? []).map((text) => reserveAddress(text, "the API's virtual IP")).filter(isThere);
}

/** Their VRIDs: keepalived of the API's virtual IPs sends adverts with them, unless they got others by hand. */
export function listApiVrids(report: NodeReport | null): number[] {
  const addresses = (report?.apiVips ?? []).map(parseAddress).filter(isThere);
  return addresses.map(findVrid).filter(isThere);
}

/** More external IPs than anybody uses. An object has room for tens of thousands. */
const maxClaimed = 64;

/**
 * Single addresses that a Service names for itself, in canonical text, each once: the `loadBalancerIP` of one that another load balancer
 * serves, and its external IPs, 64 together at most. Whoever may write a Service can name any address: so only these addresses are kept
 * back, and not their pool.
 */
export function listClaimed(service: Service, isDefaultClass: boolean): string[] {
  const { externalIPs, loadBalancerIP, type } = service.spec;
  const isOthers = type === 'LoadBalancer' && !isForUs(service, isDefaultClass);
  const texts = [isOthers ? (loadBalancerIP ?? '') : '', ...(externalIPs ?? []).slice(0, maxClaimed)];
  const addresses = texts.map((text) => parseAddress(text)?.text ?? '').filter((text) => text !== '');
  return [...new Set(addresses)].slice(0, maxClaimed);
}

function reserveRange(text: string, owner: string): ReservedRange | null {
  const range = parseRange(text);
  return range === null ? null : { range, owner };
}

function isThere<T>(value: T | null): value is T {
  return value !== null;
}
