import { type Address, type Family, families } from '../net.ts';
import * as z from 'zod/mini';
import { name, objectVersion, type Resource } from '../kubernetes/client.ts';

/**
 * Of the addresses by which keepalived knows seats: as many for each family as there are virtual_router_ids. It refuses an instance without
 * an address, so each seat has one that belongs to no network: on the interface `lo` of the seat holder. Only the seat's own adverts name it.
 */
export const anchorNumbers: readonly number[] = Array.from({ length: 255 }, (_, index) => index + 1);

/** RFC 3927, section 2.1, keeps 169.254.0.0/24 free. */
const bases = { ipv4: '169.254.0.', ipv6: 'fe80::' } as const;

interface Anchor {
  readonly address: Address;
  readonly number: number;
}

/** The anchor of a number. */
export function toAnchor(family: Family, number: number): string {
  return `${bases[family]}${number.toString(family === 'ipv4' ? 10 : 16)}`;
}

/** Null for what is no anchor, such as an address that somebody may have. Text counts as `toAnchor` writes it. */
export function parseAnchor(text: string): Anchor | null {
  return textToAnchor.get(text) ?? null;
}

const textToAnchor: ReadonlyMap<string, Anchor> = new Map(
  families.flatMap((family) =>
    anchorNumbers.map((number): [string, Anchor] => {
      const text = toAnchor(family, number);
      return [text, { address: { family, text }, number }];
    }),
  ),
);

/** What is called how in the Kubernetes API. All of these are published: none changes its meaning. */

/** Of the objects that vipnat adds. */
export const apiGroup = 'vipnat.io';

/** Of that group: the one version there is. */
export const apiVersion = 'v1alpha1';

/** `spec.loadBalancerClass` of the Services that vipnat serves. */
export const loadBalancerClass = 'vipnat.io/lb';

/** On a Service that has, or is about to get, an address; on a VirtualIP while a Service has it or gives it back; on pools. */
export const finalizer = 'vipnat.io/load-balancer';

/** Before the `/` of a finalizer: on a Service while the device of the name after it has, or may have, something of it. */
export const deviceFinalizerPrefix = 'device.vipnat.io';

/** On Services and Endpoints of another controller of devices, whose annotations vipnat takes over. Source: zdnscloud/elb-controller, 7c95da1. */
export const formerFinalizer = 'lb.zcloud.cn/protect';

/** The Secret in vipnat's namespace that the controller may read: credentials of devices. */
export const deviceSecret = 'vipnat-devices';

/** On a Service with a load balancer, whoever's. Source: k8s.io/cloud-provider, service/helpers, LoadBalancerCleanupFinalizer. */
export const cleanupFinalizer = 'service.kubernetes.io/load-balancer-cleanup';

/** Of a Service's `status.conditions`: whether its addresses answer. */
export const addressReady = 'vipnat.io/AddressReady';

/** On a Service: what its owner wants. The first of a list wins; those after it are of other load balancers, and are deprecated. */
export const serviceAnnotations = {
  /** Addresses, separated by commas: one of each family at most. */
  addresses: ['vipnat.io/addresses', 'lb.zcloud.cn/vip', 'lb.zdns.cn/vip'],
  /** `random`, `rr`, `hash` or `lc`. */
  method: ['vipnat.io/method', 'lb.zcloud.cn/method', 'lb.zdns.cn/method'],
  /** `direct` or `kube-proxy`. */
  dataplane: ['vipnat.io/dataplane'],
  /** Services with the same value may share an address. */
  shareKey: ['vipnat.io/share'],
  /** The name of an AddressPool. */
  pool: ['vipnat.io/pool'],
  /** How long an endpoint that ends may keep its open connections: a duration. */
  drainTimeout: ['vipnat.io/drain-timeout'],
  /** How long an endpoint that becomes ready takes until it gets its whole share: a duration. */
  slowStart: ['vipnat.io/slow-start'],
  /** Who may come, where the Service has no loadBalancerSourceRanges: CIDRs, separated by commas. Source: core/v1, annotation_key_constants.go. */
  sourceRanges: ['service.beta.kubernetes.io/load-balancer-source-ranges'],
} as const satisfies Record<string, readonly [string, ...string[]]>;

/** A readiness gate of pods: such a pod is ready only when nodes send connections to it. The controller writes the condition of this type. */
export const gateType = 'vipnat.io/load-balancer-ready';

/** On a namespace, `enabled`: new pods of Services there get the gate, where the cluster has the policy for that. */
export const gatesLabel = 'vipnat.io/gates';

/** The MutatingAdmissionPolicy that gives them the gate, and its binding. */
export const gatesPolicy = 'vipnat-gates';

/** On a pod: what its owner wants. See `readPodWeight`. */
export const podAnnotations = { weight: 'vipnat.io/weight' } as const;

/** On an EndpointSlice: who writes it. Source: discovery/v1, LabelManagedBy. That of early EndpointSlices is the API group. */
export const managedByLabel = 'endpointslice.kubernetes.io/managed-by';

/** On an early EndpointSlice: its Service. Without Kubernetes' own label, kube-proxy and others do not take it for theirs. */
export const earlyServiceLabel = 'vipnat.io/service-name';

/**
 * On an early EndpointSlice, so that no kube-proxy asks for it. Source: core/v1, LabelServiceProxyName and IsHeadlessService; kube-proxy's
 * server.go. Of EndpointSlices, newer ones leave out those with the second label alone.
 */
export const hidingLabels: Readonly<Record<string, string>> = {
  'service.kubernetes.io/service-proxy-name': apiGroup,
  'service.kubernetes.io/headless': '',
};

/** On an early EndpointSlice: weights that are not 1. See `readWeights`. */
export const weightsAnnotation = 'vipnat.io/weights';

/** A ConfigMap in vipnat's namespace: pools that the controller creates. See `FirstPools`. */
export const firstPools = 'vipnat-pools';

/** On that ConfigMap: a sum of the pools that were created. */
export const firstPoolsSum = 'vipnat.io/created';

/** On the controller's pods: the ranges of that ConfigMap. */
export const firstPoolsRanges = 'vipnat.io/pools';

/** On an AddressPool: what a person wants of its seats. See `readDrained`. */
export const poolAnnotations = { drained: 'vipnat.io/drained' } as const;

/** On a node's Lease: what the balancer there has done. See `NodeReport`. */
export const reportAnnotations = {
  programmed: 'vipnat.io/programmed',
  seats: 'vipnat.io/seats',
  announced: 'vipnat.io/announced',
  mode: 'vipnat.io/mode',
  inUse: 'vipnat.io/addresses-in-use',
  unsupported: 'vipnat.io/protocols-not-supported',
  draining: 'vipnat.io/draining',
  unheld: 'vipnat.io/cannot-hold',
  left: 'vipnat.io/left-to-kube-proxy',
  dropping: 'vipnat.io/clients-dropped',
  addresses: 'vipnat.io/node-addresses',
  unresponsive: 'vipnat.io/unresponsive-nodes',
  apiVips: 'vipnat.io/api-virtual-ips',
} as const;

/** On a node's Lease: the last renewal, once the controller has judged that the Lease is over. Another renewal makes it void. */
export const unresponsiveAnnotation = 'vipnat.io/unresponsive-since-renewal';

/** kubeadm's masters have it: such a node takes no traffic from outside. Source: k8s.io/api, core/v1, LabelNodeExcludeBalancers. */
export const excludedNodeLabel = 'node.kubernetes.io/exclude-from-external-load-balancers';

/** The Lease by which one controller leads, in vipnat's namespace. */
export const electionLease = 'vipnat-controller';

/** On that Lease: the types of the readiness gates that the controller opens, as JSON. */
export const gateTypesAnnotation = 'vipnat.io/gate-types';

/** The webhook that gives pods their gate: its configuration, its Service, its Secret and its rights have this name. */
export const webhookName = 'vipnat-webhook';

/** Of a schema, as OpenAPI v3 says it: a description, bounds, rules. It replaces what `crds.ts` prints for the schema. */
export type Strictness = Readonly<Record<string, unknown>>;

/**
 * Schemas to what the API asks of them. Reading asks for none of it: an object that a later version wrote must not fail, so that a
 * rollback works.
 */
export const strict = z.registry<Strictness>();

/** An expression of CEL that has several lines here. */
function toLine(expression: string): string {
  return expression.replaceAll(/\s+/g, ' ');
}

/** A rule of CEL, and what is said where it is broken. */
export const rule = (rule: string, message: string): Strictness => ({ rule, message });

const isRange = toLine(`isIP(self) || isCIDR(self) || (self.split('-').size() == 2
  && self.split('-').all(part, isIP(part.trim())))`);

/** What is not an address here is judged by the rule above. */
const hasOneFamily = toLine(`!(self.split('-').size() == 2 && self.split('-').all(part, isIP(part.trim())))
  || ip(self.split('-')[0].trim()).family() == ip(self.split('-')[1].trim()).family()`);

const isSmall = '!isCIDR(self) || cidr(self).prefixLength() >= (cidr(self).ip().family() == 4 ? 8 : 48)';

/** Kubernetes 1.31 takes `==` of two such values for endlessly dear, and refuses the definition. */
const hasNoHostBits = '!isCIDR(self) || cidr(self).masked() in [cidr(self)]';

/** What `judgePools` refuses, too. An expression has no IPv4 address in the form of IPv6. */
const foreignBlocks = `['0.0.0.0/8', '127.0.0.0/8', '169.254.0.0/16', '224.0.0.0/3', '::/127', 'fe80::/10', 'ff00::/8']`;

const first = "self.split('-')[0].trim()";
const second = "self.split('-')[1].trim()";
const last = "self.split('-')[self.split('-').size() - 1].trim()";

const isUnicast = toLine(`${foreignBlocks}.all(block, isCIDR(self)
  ? !cidr(block).containsIP(cidr(self).ip()) && !cidr(self).containsCIDR(block)
  : (!isIP(${first}) || !cidr(block).containsIP(${first})) && (!isIP(${last}) || !cidr(block).containsIP(${last})))`);

/** `/0 /1`, `/1 /2` and so on; from `/32 /33 v6` on, these are of IPv6 alone. */
const lengths = Array.from(
  { length: 128 },
  (_, bits) => `'/${bits} /${bits + 1}${bits < 32 ? '' : ' v6'}'`,
).join();
const [shorter, longer] = ["bits.split(' ')[0]", "bits.split(' ')[1]"];

/**
 * Expressions cannot compare addresses. So: both are equal, or they have some bits in common, and the next one is 0 in the first and 1 in the last.
 * Lists of one name a value, which would cost more if it was repeated. Kubernetes 1.31.14 and 1.36.3 estimate the cost of one range as 107,468. 64 of
 * them may cost 10,000,000.
 */
const isInOrderOfBits = toLine(
  `self.split('-').size() != 2 || !isIP(${first}) || !isIP(${second}) || ip(${first}) in [ip(${second})]
  || ip(${first}).family() != ip(${second}).family()
  || [${first}].exists(one, [${second}].exists(other, [${lengths}].exists(bits, (one.contains(':') || !bits.endsWith('v6'))
    && !cidr(one + ${longer}).containsIP(other) && cidr(one + ${longer}).containsIP(cidr(other + ${shorter}).masked().ip()))))`,
);

/** Addresses, as people write them. */
export const range = z.string().register(strict, {
  maxLength: 100,
  'x-kubernetes-validations': [
    rule(isRange, 'must be an address, FIRST-LAST, or a CIDR'),
    rule(hasOneFamily, 'both addresses must be of one family'),
    rule(hasNoHostBits, 'a CIDR must have no bits of a host'),
    rule(isSmall, 'a CIDR must be a /8 or smaller, for IPv6 a /48'),
    rule(isUnicast, 'no host can have loopback, link-local, multicast or unspecified addresses'),
    rule(isInOrderOfBits, 'the first address must not be greater than the last'),
  ],
});

/** No part of a millisecond: `parseGoDuration` takes all of these. */
const durationPattern = String.raw`^(\d{1,9}ms|\d{1,9}(\.\d{1,3})?s|\d{1,9}(\.\d{1,4})?m|\d{1,9}(\.\d{1,5})?h)+$`;

/** A duration as Go writes it, in whole milliseconds. */
export const duration = z.string().register(strict, { maxLength: 30, pattern: durationPattern });

/** Of the time between two adverts. */
const isAdvert = rule(
  "duration(self) >= duration('100ms') && duration(self) <= duration('10s')",
  'must be from 100ms to 10s',
);

/** keepalived takes whole seconds; a switch that missed a burst sends elsewhere until the next one. */
const isGarpInterval = rule(
  "duration(self) >= duration('10s') && duration(self) <= duration('1h')",
  'must be from 10s to 1h',
);

/** A number from 1 to 255. */
const vrid = String.raw`(25[0-5]|2[0-4]\d|1\d\d|[1-9]\d?)`;

/** Virtual_router_ids: `FIRST-LAST`, or one number. */
const vridsPattern = `^${vrid}(-${vrid})?$`;

/** Of virtual_router_ids. */
const isInOrder = rule(
  "self.split('-').size() == 1 || int(self.split('-')[0]) <= int(self.split('-')[1])",
  'the first number must not be greater than the last',
);

const known = new Set<string>([
  ...Object.values(serviceAnnotations).flat(),
  ...[podAnnotations, poolAnnotations, reportAnnotations].flatMap((names) => Object.values<string>(names)),
  ...[weightsAnnotation, gateTypesAnnotation],
]);

/** Others may be long: whoever may write an object can give it 256 KiB of them. */
function keepKnown(annotations: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(annotations).filter(([each]) => known.has(each)));
}

/** What is read of the metadata of objects that belong to no namespace. */
export const metadata = z.object({
  name,
  uid: z.string(),
  resourceVersion: objectVersion,
  generation: z._default(z.number(), 0),
  creationTimestamp: z.nullish(z.string()),
  deletionTimestamp: z.nullish(z.string()),
  labels: z.nullish(z.record(z.string(), z.string())),
  /** Those that `known` has. */
  annotations: z.nullish(z.pipe(z.record(z.string(), z.string()), z.transform(keepKnown))),
  finalizers: z.nullish(z.array(z.string())),
});

/** Of meta/v1. `observedGeneration` is the generation of the object that the condition is about. */
export const condition = z.object({
  type: z.string().register(strict, { maxLength: 316 }),
  /** Another program may write anything. */
  status: z.string().register(strict, { enum: ['True', 'False', 'Unknown'] }),
  reason: z._default(z.string(), '').register(strict, { maxLength: 1024 }),
  message: z._default(z.string(), '').register(strict, { maxLength: 32_768 }),
  lastTransitionTime: z.nullish(z.string()).register(strict, { format: 'date-time' }),
  observedGeneration: z.nullish(z.number()).register(strict, { format: 'int64' }),
});

/** One condition of an object's status. */
export type Condition = z.output<typeof condition>;

/** Those of an object's status, as its schema has them. */
type Conditions = z.ZodMiniOptional<z.ZodMiniNullable<z.ZodMiniArray<typeof condition>>>;

/** One of each type, in the status of a kind of vipnat. The description names the types. */
export function describeConditions(description: string): Conditions {
  return z.nullish(z.array(condition)).register(strict, {
    description,
    'x-kubernetes-list-type': 'map',
    'x-kubernetes-list-map-keys': ['type'],
  });
}

/**
 * The objects that the controller and the balancer share, as the API has them. What is `strict` of a field is not asked of what is
 * read: only the API asks it, by the CustomResourceDefinitions that `crds.ts` prints of these schemas.
 */

const labelValue = z.string().register(strict, { maxLength: 63 });

/** What `findSelectorProblem` refuses otherwise. */
const withValues = {
  properties: { operator: { enum: ['In', 'NotIn'] }, values: { minItems: 1 } },
  required: ['values'],
};
const withoutValues = {
  properties: { operator: { enum: ['Exists', 'DoesNotExist'] }, values: { maxItems: 0 } },
};

const requirement = z
  .object({
    key: z.string().register(strict, { maxLength: 317 }),
    operator: z.string().register(strict, { enum: ['In', 'NotIn', 'Exists', 'DoesNotExist'] }),
    values: z.nullish(z.array(labelValue)),
  })
  .register(strict, { anyOf: [withValues, withoutValues] });

/** LabelSelector of meta/v1. An empty one selects all. */
export const labelSelector = z.object({
  matchLabels: z.nullish(z.record(z.string(), labelValue)),
  matchExpressions: z.nullish(z.array(requirement)),
});

/** Which objects are meant, by their labels. */
export type LabelSelector = z.output<typeof labelSelector>;

/** Of a pool or a device: whom it is for. */
export const serviceSelectors = {
  serviceSelector: z.nullish(labelSelector).register(strict, {
    description: 'The Services that may get its addresses. All when it is empty.',
  }),
  namespaceSelector: z.nullish(labelSelector).register(strict, {
    description: 'The namespaces whose Services may get its addresses. All when it is empty.',
  }),
};

/** How many nodes may hold one seat: a pool's status goes to every node, and etcd takes 1.5 MB. */
export const mostSeatNodes = 16;

/** A VRRP instance. The controller names seats, the balancers hold them. An older controller wrote some with fewer fields. */
const seat = z
  .object({
    /** From 0, once in a pool. `POOL/INDEX` names the seat. */
    index: z.number(),
    /** Of the seat's family, and of no network: see `toAnchor`. Whoever has it on the interface lo holds the seat. */
    anchor: z._default(z.string(), '').register(strict, {
      description: 'An address that only the node of the seat has, on its interface lo.',
    }),
    vrid: z._default(z.number(), 0).register(strict, {
      default: undefined,
      description: 'The virtual_router_id.',
    }),
    /** An address of the pool: adverts take the interface in whose subnet it is, unless the pool names one. */
    network: z._default(z.string(), '').register(strict, {
      description: 'Adverts go to the network of this address.',
    }),
    /** The names of the nodes that may hold it, the one that shall first. An older controller named all of the pool. */
    nodes: z.array(z.string()).register(strict, {
      maxItems: mostSeatNodes,
      description: 'The nodes that may hold it, in order.',
    }),
  })
  .register(strict, { required: ['index', 'anchor', 'vrid', 'network', 'nodes'] });

/** A part of a pool's addresses of one family that one node holds at a time. */
export type Seat = z.output<typeof seat>;

const poolSpec = z.object({
  addresses: z.array(range).register(strict, {
    description: 'Addresses for Services: 10.0.9.10-10.0.9.99, fd00:9::/120, or one address.',
    minItems: 1,
    maxItems: 64,
  }),
  autoAssign: z._default(z.boolean(), true).register(strict, {
    description: 'Whether Services get its addresses if they name neither a pool nor an address.',
  }),
  priority: z._default(z.number().register(strict, { format: 'int32' }), 0).register(strict, {
    description: 'The pool with the highest priority gives addresses first.',
  }),
  ...serviceSelectors,
  nodeSelector: z.nullish(labelSelector).register(strict, {
    description: 'The nodes that may hold its addresses. All when it is empty.',
  }),
  interface: z._default(z.string(), 'auto').register(strict, {
    maxLength: 15,
    pattern: String.raw`^[^\s/]+$`,
    description: 'The interface that gets the addresses; auto takes the interface in their subnet.',
  }),
  seats: z._default(z.number(), 4).register(strict, {
    minimum: 1,
    maximum: 32,
    description: 'In how many parts the addresses of each family are held, each by one node at a time.',
  }),
  vrids: z.nullish(z.string()).register(strict, {
    maxLength: 7,
    pattern: vridsPattern,
    description: 'The virtual_router_ids of its seats, such as 51-60. By default, free ones are chosen.',
    'x-kubernetes-validations': [isInOrder],
  }),
  advert: z._default(duration, '300ms').register(strict, {
    description: 'The time between two VRRP adverts of a seat.',
    'x-kubernetes-validations': [isAdvert],
  }),
  garpInterval: z.nullish(duration).register(strict, {
    description:
      'How often its addresses are announced again, by ARP or neighbour discovery; by default 60s.',
    'x-kubernetes-validations': [isGarpInterval],
  }),
  reuseAfter: z._default(duration, '60s').register(strict, {
    description: 'How long the pool keeps a returned address while other addresses are free.',
  }),
  shareAcrossNamespaces: z._default(z.boolean(), false).register(strict, {
    description: 'Whether Services of different namespaces may share an address.',
  }),
});

const pool = z.object({
  metadata,
  spec: poolSpec,
  status: z.nullish(
    z.object({
      seats: z.nullish(z.array(seat)).register(strict, {
        description: 'The seats: their virtual_router_ids, and the nodes that may hold them, in order.',
      }),
      conditions: describeConditions('Accepted, Available and Seated.'),
    }),
  ),
});

/** Addresses that Services may get. A person chooses its name. */
export type AddressPool = z.output<typeof pool>;

const user = z.object({ namespace: z.string(), name: z.string(), uid: z.string() });

/** A Service that has an address. A new one of the same name has another uid. */
export type AddressUser = z.output<typeof user>;

const absentNode = z.object({ node: z.string(), renewal: z.string() });

/** A node that did not learn of an address. */
export type AbsentNode = z.output<typeof absentNode>;

const virtualIpSpec = z.object({
  pool: z.string().register(strict, {
    minLength: 1,
    description: 'The AddressPool that has the address.',
  }),
  seat: z.number().register(strict, {
    minimum: 0,
    description: 'The index of the seat that holds the address. The status of the pool has the seats.',
  }),
  shareKey: z._default(z.string(), '').register(strict, {
    description: 'Services with the same key may share the address.',
  }),
  services: z.array(user).register(strict, {
    maxItems: 1000,
    description: 'Services that have the address. The list is empty while the address waits.',
  }),
  /**
   * Balancers serve none of them. Each stays here until every living node has forgotten it and its status no longer has the
   * address. While somebody is here, no further Service gets the address.
   */
  leaving: z._default(z.array(user), []).register(strict, {
    maxItems: 1000,
    description: 'Services that give the address back. No living node serves them.',
  }),
  formerNamespaces: z._default(z.array(labelValue), []).register(strict, {
    maxItems: 1000,
    description:
      'The namespaces of Services that gave the address back: until reuseAfter is over, only these can name it.',
  }),
  /** With the last renewal that was received. As long as no other one is received, such a node does not serve the address. */
  absent: z._default(z.array(absentNode), []).register(strict, {
    maxItems: 5000,
    description: 'Nodes whose Lease was over when the address was given: they do not serve it.',
  }),
});

const virtualIpStatus = z.object({
  seatHolder: z.nullish(z.string()).register(strict, {
    description: 'The node that holds the address, as its balancer reports.',
  }),
  mode: z.nullish(z.string()).register(strict, {
    description: 'How that node balances the address: direct or kube-proxy.',
  }),
  releasedAt: z.nullish(z.string()).register(strict, {
    format: 'date-time',
    description: 'Since when no Service has the address.',
  }),
  conditions: describeConditions('Programmed, Announced, AddressInUse, Withdrawn and Terminating.'),
});

/** What is asked of an object with its name: the address that it stands for. */
const isNamedForAddress = rule(
  "isIP(self.metadata.name) || isIP(self.metadata.name.replace('-', ':'))",
  'the name must be an address, with - in place of :',
);

const virtualIp = z
  .object({ metadata, spec: virtualIpSpec, status: z.nullish(virtualIpStatus) })
  .register(strict, { 'x-kubernetes-validations': [isNamedForAddress] });

/** An address that is given. Its name is the address (`toObjectName`), so that one exists at most. */
export type VirtualIp = z.output<typeof virtualIp>;

/** As many as a pool of a /16 has. */
const maxVirtualIps = 65_536;

/** Bounds of memory, not of use. */
const limits = { characters: 32_000_000, page: 500 };

/** The definitions of these kinds are vipnat's own. */
const absence = 'apply what vipnat manifest services prints';

/** All pools. */
export const addressPools: Resource<AddressPool> = {
  kind: 'AddressPool',
  path: `/apis/${apiGroup}/${apiVersion}/addresspools`,
  selector: '',
  schema: pool,
  limits: { ...limits, objects: 1000 },
  absence,
};

/** All addresses that are given, or wait to be given again. */
export const virtualIps: Resource<VirtualIp> = {
  kind: 'VirtualIP',
  path: `/apis/${apiGroup}/${apiVersion}/virtualips`,
  selector: '',
  schema: virtualIp,
  limits: { ...limits, objects: maxVirtualIps },
  // A Service may have left it: a node that says it has learned of that serves it no more.
  dropsUnreadable: true,
  absence,
};
