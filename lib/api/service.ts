import { type Family, type Address, families, parseAddress } from '../net.ts';
import {
  loadBalancerClass,
  serviceAnnotations,
  metadata as ofCluster,
  condition,
  type VirtualIp,
} from './vipnat.ts';
import { quoteTenant } from '../text.ts';
import * as z from 'zod/mini';
import { name, narrow, type Resource, type NamespacedName, selectName } from '../kubernetes/client.ts';

/** How an endpoint is chosen, the default first: at random, in turn, by the client's address, or rather one with few open connections. */
export const methods = ['random', 'rr', 'hash', 'lc'] as const;

/** One of methods. */
export type Method = (typeof methods)[number];

/** The method that the owner of a Service asks for and that vipnat does not have, so that the default counts; null where it has it. */
export function findUnknownMethod(service: Service): string | null {
  const text = readAnnotation(service, 'method') ?? '';
  return text === '' || methods.some((known) => known === text) ? null : text;
}

/** What the owner of a Service asks for, by its fields and annotations that are about its address. */
export interface ServiceRequests {
  /** The families to serve, in the Service's own order. */
  readonly families: readonly Family[];
  /** Whether a family alone is of no use: RequireDualStack. */
  readonly isAllOrNothing: boolean;
  /** The addresses to serve, one of each family at most. Families without one get any. */
  readonly addresses: Readonly<Partial<Record<Family, Address>>>;
  /** Why the addresses that are asked for cannot be had; null when they can, or when none are. For people. */
  readonly problem: string | null;
  /** Empty: the address is for this Service alone. */
  readonly shareKey: string;
  /** The pool to take an address from; null for any that gives addresses to this Service. */
  readonly pool: string | null;
}

/** Whether a Service is for vipnat: its type and class say so. A Service that is being deleted is, until it is gone. */
export function isForUs({ spec }: Service, isDefaultClass: boolean): boolean {
  if (spec.type !== 'LoadBalancer') return false;
  return (spec.loadBalancerClass ?? (isDefaultClass ? loadBalancerClass : null)) === loadBalancerClass;
}

/**
 * What an annotation says: its published name first, then the deprecated ones. An empty one is absent: templates render so what is left out.
 * Undefined when none is there.
 */
export function readAnnotation(
  { metadata }: Service,
  annotation: keyof typeof serviceAnnotations,
): string | undefined {
  const texts = serviceAnnotations[annotation].map((name) => metadata.annotations?.[name]?.trim() ?? '');
  return texts.find((text) => text !== '');
}

/**
 * A duration that the owner of a Service asks for, in milliseconds: null where none is asked for, or where the text is none. That text is
 * `malformed`, or null.
 */
export function readDuration(
  service: Service,
  annotation: 'drainTimeout' | 'slowStart',
): { readonly ms: number | null; readonly malformed: string | null } {
  const text = readAnnotation(service, annotation) ?? '';
  if (text === '') return { ms: null, malformed: null };
  const ms = parseGoDuration(text);
  return { ms, malformed: ms === null ? text : null };
}

/** Reads what a Service asks for. */
export function readRequests(service: Service): ServiceRequests {
  const { addresses, problem } = readAddresses(service);
  const wanted = readFamilies(service, Object.values(addresses)[0]?.family ?? 'ipv4');
  const unwanted = families.find((family) => addresses[family] !== undefined && !wanted.includes(family));
  const notForIt = `${addresses[unwanted ?? 'ipv4']?.text} is of a family that this Service does not have (ipFamilies, ipFamilyPolicy)`;
  return {
    families: wanted,
    isAllOrNothing: service.spec.ipFamilyPolicy === 'RequireDualStack',
    addresses,
    problem: problem ?? (unwanted === undefined ? null : notForIt),
    shareKey: readAnnotation(service, 'shareKey') ?? '',
    pool: readAnnotation(service, 'pool') ?? null,
  };
}

/** The first of `ipFamilies`, and the other one where the policy is for both. The API fills both fields. */
function readFamilies({ spec }: Service, otherwise: Family): Family[] {
  const listed = (spec.ipFamilies ?? []).map(toFamily).filter((family) => family !== null);
  const isDual = spec.ipFamilyPolicy === 'PreferDualStack' || spec.ipFamilyPolicy === 'RequireDualStack';
  if (listed.length === 0) return [otherwise];
  return isDual ? [...new Set(listed)] : listed.slice(0, 1);
}

function readAddresses(service: Service): Pick<ServiceRequests, 'addresses' | 'problem'> {
  const addresses: Partial<Record<Family, Address>> = {};
  const annotated = splitList(readAnnotation(service, 'addresses'));
  for (const part of annotated.length > 0 ? annotated : splitList(service.spec.loadBalancerIP)) {
    const address = parseAddress(part);
    if (address === null) return { addresses: {}, problem: `${quoteTenant(part)} is not an address` };
    const { family } = address;
    if (addresses[family] !== undefined) {
      const both = `${addresses[family].text} and ${quoteTenant(part)}`;
      return { addresses: {}, problem: `${both} are of the same family` };
    }
    addresses[family] = address;
  }
  return { addresses, problem: null };
}

function splitList(text: string | null | undefined): string[] {
  return (text ?? '').split(',').flatMap((part) => part.trim() || []);
}

function toFamily(name: string): Family | null {
  if (name === 'IPv4') return 'ipv4';
  return name === 'IPv6' ? 'ipv6' : null;
}

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

const serviceMetadata = z.extend(ofCluster, {
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
  metadata: serviceMetadata,
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
 * What distinguishes pods that have the same address one after the other: a number of their UID, as 100,000 UIDs would take 10 MB. Null where
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
  metadata: z.extend(z.pick(ofCluster, { name: true, resourceVersion: true, labels: true }), {
    namespace: name,
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
export type ServiceSlice = z.output<typeof slice>;

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
export const endpointSlices: Resource<ServiceSlice> = {
  kind: 'EndpointSlice',
  path: '/apis/discovery.k8s.io/v1/endpointslices',
  selector: `labelSelector=${encodeURIComponent(serviceNameLabel)}`,
  schema: slice,
  limits,
};

/** The Service of a name, whatever its type. */
export function selectService({ namespace, name: own }: NamespacedName): Resource<Service> {
  return narrow(services, namespace, selectName(own));
}

/** The EndpointSlices of the Service of a name. */
export function selectSlicesOf({ namespace, name: own }: NamespacedName): Resource<ServiceSlice> {
  const selector = `labelSelector=${encodeURIComponent(`${serviceNameLabel}=${own}`)}`;
  return narrow(endpointSlices, namespace, selector);
}

/**
 * Whether the controller waits until all nodes have a VirtualIP as it is now. One that Services have waits for its condition
 * `Programmed` of this generation; one that nobody has any more, for the time from which it may be given again.
 */
export function isAwaited({ metadata, spec, status }: VirtualIp): boolean {
  if (spec.services.length === 0) return (status?.releasedAt ?? '') === '';
  const programmed = status?.conditions?.find(({ type }) => type === 'Programmed');
  return programmed?.status !== 'True' || programmed.observedGeneration !== metadata.generation;
}

const unitToMs: Readonly<Record<string, bigint>> = { ms: 1n, s: 1000n, m: 60_000n, h: 3_600_000n };

/** Digits after the point: the sum is counted in parts of a millisecond that are so small. */
const places = 9;
const millisecond = 10n ** BigInt(places);

/** A duration as Go and Kubernetes write it, `300ms`, `1m30s` or `1.5s`, in milliseconds; null for any other text, and for parts of a millisecond. Pure. */
export function parseGoDuration(text: string): number | null {
  if (!/^(?:\d{1,9}(?:\.\d{1,9})?(?:ms|s|m|h))+$/.test(text)) return null;
  const parts = [...text.matchAll(/(\d+)(?:\.(\d+))?(ms|s|m|h)/g)];
  const sum = parts.reduce(
    (all, [, whole = '', fraction = '', unit = '']) =>
      all + BigInt(`${whole}${fraction.padEnd(places, '0')}`) * (unitToMs[unit] ?? 0n),
    0n,
  );
  return sum % millisecond === 0n ? Number(sum / millisecond) : null;
}
