import { type Endpoint } from '../address/endpoint.ts';
import { hashToBase32 } from './hash.ts';
import { type ServicePortName } from './service-port.ts';

/** How many characters of the hash come before the readable part of a name. */
const hashLength = 8;

/**
 * The nftables proxy's chain that holds a service port's endpoints: `service-2QRHZV4L-default/kubernetes/tcp/https`.
 * Source: pkg/proxy/nftables/proxier.go, servicePortChainNameBase.
 */
export function nftServiceChainName(service: ServicePortName): string {
  return `service-${withHash(formatService(service))}`;
}

/**
 * The nftables proxy's chain for one endpoint of a service port. IPv6 addresses have dots for their colons. Names
 * over 240 characters, which kube-proxy cuts, are not: only Services with far longer names than default/kubernetes get there.
 * Source: pkg/proxy/nftables/proxier.go, servicePortEndpointChainNameBase.
 */
export function nftEndpointChainName(service: ServicePortName, { address, port }: Endpoint): string {
  return `endpoint-${withHash(`${formatService(service)}__${address.replaceAll(':', '.')}/${port}`)}`;
}

/**
 * Whether a set of the nftables proxy holds the clients of one of a service port's endpoints (sessionAffinity: ClientIP):
 * it is called as the endpoint's chain is, but for the prefix.
 * Source: pkg/proxy/nftables/proxier.go, servicePortEndpointAffinityNamePrefix.
 */
export function isNftAffinitySet(service: ServicePortName, name: string): boolean {
  const prefix = 'affinity-';
  const readable = name.slice(prefix.length + hashLength);
  return name.startsWith(prefix) && readable.startsWith(`-${formatService(service)}__`);
}

function formatService({ namespace, name, protocol, portName }: ServicePortName): string {
  return `${namespace}/${name}/${protocol}/${portName}`;
}

function withHash(name: string): string {
  return `${hashToBase32(name, hashLength)}-${name}`;
}
