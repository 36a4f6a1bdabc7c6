/** Services and EndpointSlices of all namespaces, as far as controller and balancer use them. */
import * as z from 'zod/mini';
import { name, type NamespacedName, version } from '../kubernetes/api-object.ts';
import { type Resource } from '../kubernetes/resources.ts';
import { condition, metadata as ofCluster } from './metadata.ts';

/** Names of the programs that have written something of an object's status. */
const managers = z.pipe(
  z.array(
    z.object({
      manager: z._default(z.string(), ''),
      fieldsV1: z._default(z.record(z.string(), z.unknown()), {}),
    }),
  ),
  z.transform((entries: { manager: string; fieldsV1: Record<string, unknown> }[]) => [
    ...new Set(entries.flatMap(({ manager, fieldsV1 }) => ('f:status' in fieldsV1 ? [manager] : []))),
  ]),
);

const metadata = z.extend(ofCluster, {
  namespace: name,
  /** Of no use for anything but a name: what cannot be read of it is left out. */
  managedFields: z.catch(z.nullish(managers), null),
});

/** What a Service's port sends: TCP where nothing is said. */
const protocol = z._default(z.string(), 'TCP');

const port = z.object({
  /** Empty where a Service has one port only. */
  name: z._default(z.string(), ''),
  protocol,
  port: z.number(),
  targetPort: z.nullish(z.union([z.number(), z.string()])),
  nodePort: z.nullish(z.number()),
});

/** One port of a Service. */
export type ServicePort = z.output<typeof port>;

const ingress = z.object({
  ip: z.nullish(z.string()),
  hostname: z.nullish(z.string()),
  /** VIP or Proxy. */
  ipMode: z.nullish(z.string()),
  ports: z.nullish(z.array(z.object({ port: z.number(), protocol, error: z.nullish(z.string()) }))),
});

/** One address that a Service's status publishes. */
export type Ingress = z.output<typeof ingress>;

const service = z.object({
  metadata,
  spec: z.object({
    type: z._default(z.string(), 'ClusterIP'),
    loadBalancerClass: z.nullish(z.string()),
    /** Deprecated since Kubernetes 1.24, and still used. */
    loadBalancerIP: z.nullish(z.string()),
    loadBalancerSourceRanges: z.nullish(z.array(z.string())),
    externalIPs: z.nullish(z.array(z.string())),
    clusterIP: z.nullish(z.string()),
    clusterIPs: z.nullish(z.array(z.string())),
    selector: z.nullish(z.record(z.string(), z.string())),
    ports: z.nullish(z.array(port)),
    externalTrafficPolicy: z._default(z.string(), 'Cluster'),
    ipFamilies: z.nullish(z.array(z.string())),
    ipFamilyPolicy: z.nullish(z.string()),
    sessionAffinity: z._default(z.string(), 'None'),
    sessionAffinityConfig: z.nullish(
      z.object({ clientIP: z.nullish(z.object({ timeoutSeconds: z.nullish(z.number()) })) }),
    ),
    publishNotReadyAddresses: z._default(z.boolean(), false),
    trafficDistribution: z.nullish(z.string()),
  }),
  status: z.nullish(
    z.object({
      loadBalancer: z.nullish(z.object({ ingress: z.nullish(z.array(ingress)) })),
      conditions: z.nullish(z.array(condition)),
    }),
  ),
});

/** A Service of v1. */
export type Service = z.output<typeof service>;

/**
 * What tells pods apart that have the same address one after the other: a number of their UID, as 100,000 UIDs would take 10 MB. Null where
 * nobody says it.
 */
export function toPodNumber(
  reference: { readonly uid?: string | null | undefined } | null | undefined,
): number | null {
  const uid = reference?.uid ?? '';
  if (uid === '') return null;
  let number = 0;
  // 30 bits: V8 keeps such a number without an object of its own.
  for (const character of uid)
    number = (Math.imul(number, 31) + (character.codePointAt(0) ?? 0)) & 0x3fffffff;
  return number;
}

/** One endpoint of an EndpointSlice. */
export const endpoint = z.object({
  /** See `toPodNumber`. */
  targetRef: z.nullish(
    z.pipe(
      z.object({ uid: z.nullish(z.string()) }),
      z.transform((reference: { uid?: string | null | undefined }) => toPodNumber(reference)),
    ),
  ),
  addresses: z.array(z.string()),
  conditions: z.nullish(
    z.object({
      ready: z.nullish(z.boolean()),
      serving: z.nullish(z.boolean()),
      terminating: z.nullish(z.boolean()),
    }),
  ),
  nodeName: z.nullish(z.string()),
  zone: z.nullish(z.string()),
  hints: z.nullish(
    z.object({
      forZones: z.nullish(z.array(z.object({ name: z.string() }))),
      forNodes: z.nullish(z.array(z.object({ name: z.string() }))),
    }),
  ),
});

/** What is read of an EndpointSlice, whoever writes it. */
export const slice = z.object({
  metadata: z.object({
    name,
    namespace: name,
    resourceVersion: version,
    labels: z.nullish(z.record(z.string(), z.string())),
  }),
  addressType: z.string(),
  endpoints: z.nullish(z.array(endpoint)),
  ports: z.nullish(
    z.array(
      z.object({ name: z.nullish(z.string()), port: z.nullish(z.number()), protocol: z.nullish(z.string()) }),
    ),
  ),
});

/** An EndpointSlice of discovery.k8s.io/v1. */
export type EndpointSlice = z.output<typeof slice>;

/** On an EndpointSlice: the Service of the same namespace that it belongs to. */
export const serviceNameLabel = 'kubernetes.io/service-name';

/** Bounds of memory, not of use. An EndpointSlice has 1,000 endpoints at most. */
const limits = { objects: 200_000, characters: 64_000_000, page: 500 };

/**
 * All Services. The controller follows these: a Service whose type changed while no controller ran still has its finalizer, and is
 * none of type LoadBalancer.
 */
export const services: Resource<Service> = {
  kind: 'Service',
  path: '/api/v1/services',
  selector: '',
  schema: service,
  limits,
};

/** The Services of type LoadBalancer. Balancers follow these. */
export const loadBalancerServices: Resource<Service> = {
  ...services,
  selector: `fieldSelector=${encodeURIComponent('spec.type=LoadBalancer')}`,
};

/** All EndpointSlices of Services. */
export const endpointSlices: Resource<EndpointSlice> = {
  kind: 'EndpointSlice',
  path: '/apis/discovery.k8s.io/v1/endpointslices',
  selector: `labelSelector=${encodeURIComponent(serviceNameLabel)}`,
  schema: slice,
  limits,
};

/** The Service of a name, whatever its type. */
export function selectService({ namespace, name: own }: NamespacedName): Resource<Service> {
  return {
    ...services,
    path: `/api/v1/namespaces/${namespace}/services`,
    selector: `fieldSelector=${encodeURIComponent(`metadata.name=${own}`)}`,
  };
}

/** The EndpointSlices of the Service of a name. */
export function selectSlicesOf({ namespace, name: own }: NamespacedName): Resource<EndpointSlice> {
  return {
    ...endpointSlices,
    path: `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices`,
    selector: `labelSelector=${encodeURIComponent(`${serviceNameLabel}=${own}`)}`,
  };
}
