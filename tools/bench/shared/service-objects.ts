import { definitions } from '../../../lib/api/crds.ts';
import {
  toAnchor,
  apiGroup,
  apiVersion,
  addressPools,
  loadBalancerClass,
  virtualIps,
} from '../../../lib/api/vipnat.ts';

/** A request. Those of one stage come in any order, and before those of the next one in a list. */
export interface Order {
  readonly stage: number;
  readonly method: 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  readonly path: string;
  readonly body: object;
}

/** A Service with one address and its endpoints, as they are made for a bench. */
export interface BenchService {
  readonly name: string;
  readonly vip: string;
  readonly endpoints: readonly string[];
}

/** What its endpoints listen on, and how. */
export interface EndpointPort {
  readonly protocol: 'TCP' | 'UDP';
  readonly port: number;
  /** On which node each endpoint is. */
  readonly locate: (index: number) => string;
}

/** Of `vipnat balancer` by default. */
export const vipnatNamespace = 'vipnat-system';

/** The one pool. */
export const poolName = 'bench';

export const servicesPath = '/api/v1/namespaces/default/services';
const slicesPath = '/apis/discovery.k8s.io/v1/namespaces/default/endpointslices';

/** What vipnat and all nodes need before there is any Service. */
export function orderBasics(nodes: readonly { readonly name: string; readonly address: string }[]): Order[] {
  return [
    order('/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata: { name: vipnatNamespace } }),
    ...definitions.map((body) => order('/apis/apiextensions.k8s.io/v1/customresourcedefinitions', body)),
    ...nodes.map(({ name, address }) =>
      order('/api/v1/nodes', {
        apiVersion: 'v1',
        kind: 'Node',
        metadata: { name },
        status: { addresses: [{ type: 'InternalIP', address }] },
      }),
    ),
  ];
}

/**
 * The pool, whose one seat all addresses are of; it exists from then on. Without nodes nobody holds it. Its VRID is none of the API's VIP.
 */
export function orderPool(network: string, nodes: readonly string[]): Order[] {
  const seats = [{ index: 0, anchor: toAnchor('ipv4', 1), vrid: 100, network, nodes }];
  const head = { apiVersion: `${apiGroup}/${apiVersion}`, kind: 'AddressPool', metadata: { name: poolName } };
  const pool = { ...head, spec: { addresses: [network], seats: 1 } };
  return [
    order(addressPools.path, pool),
    {
      ...{ stage: 1, method: 'PATCH', path: `${addressPools.path}/${poolName}/status` },
      body: { status: { seats } },
    },
  ];
}

/** The Services themselves; `orderRest` needs the UIDs that they get. */
export function orderServices(services: readonly BenchService[], { protocol }: EndpointPort): Order[] {
  return services.map(({ name }) =>
    order(servicesPath, {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name },
      spec: { type: 'LoadBalancer', loadBalancerClass, ports: [{ port: 80, protocol }] },
    }),
  );
}

/** All that a controller and kube-controller-manager would write of the Services. */
export function orderRest(
  services: readonly BenchService[],
  port: EndpointPort,
  nameToUid: ReadonlyMap<string, string>,
): Order[] {
  return services.flatMap((service): Order[] => [
    order(slicesPath, makeSlice(service, port)),
    order(virtualIps.path, {
      apiVersion: `${apiGroup}/${apiVersion}`,
      kind: 'VirtualIP',
      metadata: { name: service.vip },
      spec: {
        pool: poolName,
        seat: 0,
        services: [{ namespace: 'default', name: service.name, uid: nameToUid.get(service.name) ?? '' }],
      },
    }),
    {
      ...{ stage: 0, method: 'PATCH', path: `${servicesPath}/${service.name}/status` },
      body: { status: { loadBalancer: { ingress: [{ ip: service.vip, ipMode: 'VIP' }] } } },
    },
  ]);
}

/** Where the EndpointSlice of a Service is. */
export function locateSlice({ name }: BenchService): string {
  return `${slicesPath}/${name}`;
}

/** The EndpointSlice of a Service. */
export function makeSlice(
  { name, endpoints }: BenchService,
  { protocol, port, locate }: EndpointPort,
): object {
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name, labels: { 'kubernetes.io/service-name': name } },
    addressType: 'IPv4',
    endpoints: endpoints.map((address, index) => ({
      addresses: [address],
      conditions: { ready: true },
      nodeName: locate(index),
    })),
    ports: [{ name: '', protocol, port }],
  };
}

function order(path: string, body: object): Order {
  return { stage: 0, method: 'POST', path, body };
}
