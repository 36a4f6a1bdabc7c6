import { type Endpoint, formatEndpoint } from '../address/endpoint.ts';
import { hashToBase32 } from './hash.ts';
import { formatServicePort, type ServicePortName } from './service-port.ts';

/** How many characters of the hash an iptables chain name has room for. */
const hashLength = 16;

/**
 * The iptables proxy's chain that holds a service port's endpoints, `KUBE-SVC-…`, the same in both families.
 * Source: pkg/proxy/iptables/proxier.go, portProtoHash and servicePortPolicyClusterChain.
 */
export function serviceChainName(service: ServicePortName): string {
  return `KUBE-SVC-${hashToBase32(`${formatServicePort(service)}${service.protocol}`, hashLength)}`;
}

/**
 * The iptables proxy's chain for one endpoint of a service port, `KUBE-SEP-…`.
 * Source: pkg/proxy/iptables/proxier.go, servicePortEndpointChainName.
 */
export function endpointChainName(service: ServicePortName, endpoint: Endpoint): string {
  const text = `${formatServicePort(service)}${service.protocol}${formatEndpoint(endpoint)}`;
  return `KUBE-SEP-${hashToBase32(text, hashLength)}`;
}
