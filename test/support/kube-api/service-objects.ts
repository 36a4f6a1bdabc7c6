import { type KubeObject } from './kube-store.ts';

/** An endpoint as a test says it: an address, or more of it. */
export type EndpointWords =
  | string
  | {
      readonly addresses: readonly string[];
      readonly nodeName?: string;
      readonly zone?: string;
      readonly conditions?: {
        readonly ready?: boolean;
        readonly serving?: boolean;
        readonly terminating?: boolean;
      };
      readonly hints?: object;
      readonly targetRef?: object;
    };

/** A port of a Service, and of its pods. */
export interface PortWords {
  readonly name?: string;
  readonly protocol?: string;
  readonly port: number;
}

/** A Service of type LoadBalancer in namespace `default`, as a person makes it. Its UID is made of its name. */
export function makeLoadBalancer(
  name: string,
  ports: readonly PortWords[],
  more: { readonly spec?: object; readonly annotations?: Readonly<Record<string, string>> } = {},
): KubeObject {
  const { spec = {}, annotations = {} } = more;
  return {
    metadata: { name, namespace: 'default', uid: toUid(name), annotations },
    spec: {
      type: 'LoadBalancer',
      loadBalancerClass: 'vipnat.io/lb',
      ports: ports.map((port) => ({ name: '', protocol: 'TCP', ...port })),
      ...spec,
    },
  };
}

/** An EndpointSlice of such a Service, as the control plane makes it; of IPv6 where the first endpoint is. */
export function makeEndpoints(
  service: string,
  ports: readonly PortWords[],
  endpoints: readonly EndpointWords[],
): KubeObject {
  const whole = endpoints.map((words) => (typeof words === 'string' ? { addresses: [words] } : words));
  const isIpv6 = whole[0]?.addresses[0]?.includes(':') === true;
  return {
    metadata: {
      name: `${service}-${isIpv6 ? 'ipv6' : 'ipv4'}`,
      namespace: 'default',
      labels: { 'kubernetes.io/service-name': service },
    },
    addressType: isIpv6 ? 'IPv6' : 'IPv4',
    endpoints: whole.map((endpoint) => ({ conditions: { ready: true }, ...endpoint })),
    ports: ports.map((port) => ({ name: '', protocol: 'TCP', ...port })),
  };
}

/** An early EndpointSlice of such a Service, as the controller makes it. */
export function makeEarlyEndpoints(
  service: string,
  ports: readonly PortWords[],
  endpoints: readonly EndpointWords[],
  weights: Readonly<Record<string, number>> = {},
): KubeObject {
  const { metadata, ...rest } = makeEndpoints(service, ports, endpoints);
  return {
    ...rest,
    metadata: {
      ...{ name: `vipnat-${metadata.name}`, namespace: 'default', uid: toUid(`early ${service}`) },
      labels: { 'endpointslice.kubernetes.io/managed-by': 'vipnat.io', 'vipnat.io/service-name': service },
      annotations: { 'vipnat.io/weights': JSON.stringify(weights) },
    },
  };
}

/** The VirtualIP that gives an address to such Services. */
export function makeVirtualIp(address: string, services: readonly string[]): KubeObject {
  return {
    metadata: { name: address.replaceAll(':', '-'), uid: toUid(address) },
    spec: {
      pool: 'pool',
      seat: 0,
      services: services.map((name) => ({ namespace: 'default', name, uid: toUid(name) })),
    },
  };
}

function toUid(name: string): string {
  return `uid-of-${name}`;
}
