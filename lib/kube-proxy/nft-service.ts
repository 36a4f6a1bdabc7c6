import { type Endpoint } from '../address/endpoint.ts';
import { hashToBase32 } from './hash.ts';
import { type ServicePort } from './service-chain.ts';

/** How many characters of the hash come before the readable part of a name. */
const hashLength = 8;

/**
 * The nftables proxy's chain that holds a service port's endpoints: `service-2QRHZV4L-default/kubernetes/tcp/https`.
 * Source: pkg/proxy/nftables/proxier.go, servicePortChainNameBase.
 */
export function nftServiceChainName(service: ServicePort): string {
  return `service-${withHash(formatService(service))}`;
}

/**
 * The nftables proxy's chain for one endpoint of a service port. IPv6 addresses have dots for their colons. Names
 * over 240 characters, which kube-proxy cuts, are not: only Services with far longer names than ours get there.
 * Source: pkg/proxy/nftables/proxier.go, servicePortEndpointChainNameBase.
 */
export function nftEndpointChainName(service: ServicePort, { address, port }: Endpoint): string {
  return `endpoint-${withHash(`${formatService(service)}__${address.replaceAll(':', '.')}/${port}`)}`;
}

function formatService({ namespace, name, protocol, portName }: ServicePort): string {
  return `${namespace}/${name}/${protocol}/${portName}`;
}

function withHash(name: string): string {
  return `${hashToBase32(name, hashLength)}-${name}`;
}
