import { type Endpoint, formatEndpoint } from '../address/endpoint.ts';
import { hashToBase32 } from './hash.ts';

/** One port of one Service, as kube-proxy identifies it. */
export interface ServicePort {
  readonly namespace: string;
  readonly name: string;
  /** Empty for the only port of a Service that does not name it. */
  readonly portName: string;
  readonly protocol: 'tcp' | 'udp' | 'sctp';
}

/** How many characters of the hash an iptables chain name has room for. */
const hashLength = 16;

/** `default/kubernetes:https`, without the colon when the port has no name: kube-proxy's text for a service port. */
export function formatServicePort({ namespace, name, portName }: ServicePort): string {
  return `${namespace}/${name}${portName === '' ? '' : `:${portName}`}`;
}

/**
 * The iptables proxy's chain that holds a service port's endpoints, `KUBE-SVC-…`, the same in both families.
 * Source: pkg/proxy/iptables/proxier.go, portProtoHash and servicePortPolicyClusterChain.
 */
export function serviceChainName(service: ServicePort): string {
  return `KUBE-SVC-${hashToBase32(`${formatServicePort(service)}${service.protocol}`, hashLength)}`;
}

/**
 * The iptables proxy's chain for one endpoint of a service port, `KUBE-SEP-…`.
 * Source: pkg/proxy/iptables/proxier.go, servicePortEndpointChainName.
 */
export function endpointChainName(service: ServicePort, endpoint: Endpoint): string {
  const text = `${formatServicePort(service)}${service.protocol}${formatEndpoint(endpoint)}`;
  return `KUBE-SEP-${hashToBase32(text, hashLength)}`;
}
