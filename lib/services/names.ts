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
  way: ['vipnat.io/way'],
  /** Services with the same value may share an address. */
  shareKey: ['vipnat.io/share'],
  /** The name of an AddressPool. */
  pool: ['vipnat.io/pool'],
  /** How long an endpoint that ends may keep its open connections: a duration. */
  drainTimeout: ['vipnat.io/drain-timeout'],
  /** How long an endpoint that becomes ready takes until it gets its whole share: a duration. */
  slowStart: ['vipnat.io/slow-start'],
} as const satisfies Record<string, readonly [string, ...string[]]>;

/** A readiness gate of pods: such a pod is ready only when nodes send connections to it. The controller writes the condition of this type. */
export const gateType = 'vipnat.io/load-balancer-ready';

/** On a namespace, `enabled`: new pods of Services there get the gate, where the cluster has the policy for that. */
export const gatesLabel = 'vipnat.io/gates';

/** The MutatingAdmissionPolicy that gives them the gate, and its binding. */
export const gatesPolicy = 'vipnat-gates';

/** On a pod: what its owner wants. */
export const podAnnotations = {
  /** See `weights.ts`. */
  weight: 'vipnat.io/weight',
} as const;

/** On an EndpointSlice: who writes it. Source: discovery/v1, LabelManagedBy. That of early EndpointSlices is the API group. */
export const managedByLabel = 'endpointslice.kubernetes.io/managed-by';

/** On an early EndpointSlice: its Service. Without Kubernetes' own label, kube-proxy and others do not take it for theirs. */
export const earlyServiceLabel = 'vipnat.io/service-name';

/** On an early EndpointSlice, so that kube-proxies do not even ask for it. Source: core/v1, LabelServiceProxyName. */
export const serviceProxyLabel = 'service.kubernetes.io/service-proxy-name';

/** On an early EndpointSlice: weights that are not 1. See `weights.ts`. */
export const weightsAnnotation = 'vipnat.io/weights';

/** A ConfigMap in vipnat's namespace: pools that the controller creates. See `first-pools.ts`. */
export const firstPools = 'vipnat-pools';

/** On that ConfigMap: a sum of the pools that were created. */
export const firstPoolsSum = 'vipnat.io/created';

/** On the controller's pods: the ranges of that ConfigMap. */
export const firstPoolsRanges = 'vipnat.io/pools';

/** On an AddressPool: what a person wants of its seats. */
export const poolAnnotations = {
  /** See `drained.ts`. */
  drained: 'vipnat.io/drained',
} as const;

/** On a node's Lease: what the balancer there has done. See `node-report.ts`. */
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
  silent: 'vipnat.io/silent-nodes',
  apiVips: 'vipnat.io/api-virtual-ips',
} as const;

/** On a node's Lease: the last renewal, once the controller has judged that the Lease is over. Another renewal makes it void. */
export const silentAnnotation = 'vipnat.io/silent-since-renewal';

/** kubeadm's masters have it: such a node takes no traffic from outside. Source: k8s.io/api, core/v1, LabelNodeExcludeBalancers. */
export const excludedNodeLabel = 'node.kubernetes.io/exclude-from-external-load-balancers';

/** The Lease by which one controller leads, in vipnat's namespace. */
export const electionLease = 'vipnat-controller';

/** On that Lease: the types of the readiness gates that the controller opens, as JSON. */
export const gateTypesAnnotation = 'vipnat.io/gate-types';

/** The webhook that gives pods their gate: its configuration, its Service, its Secret and its rights have this name. */
export const webhookName = 'vipnat-webhook';
