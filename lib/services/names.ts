/** What is called how in the Kubernetes API. All of these are published: none changes its meaning. */

/** Of the objects that vipnat adds. */
export const apiGroup = 'vipnat.io';

/** Of that group: the one version there is. */
export const apiVersion = 'v1alpha1';

/** `spec.loadBalancerClass` of the Services that vipnat serves. */
export const loadBalancerClass = 'vipnat.io/lb';

/** On a Service that has, or is about to get, an address. */
export const finalizer = 'vipnat.io/load-balancer';

/** On a Service with a load balancer, whoever's. Source: k8s.io/cloud-provider, service/helpers, LoadBalancerCleanupFinalizer. */
export const cleanupFinalizer = 'service.kubernetes.io/load-balancer-cleanup';

/** Of a Service's `status.conditions`: whether its addresses answer. */
export const addressReady = 'vipnat.io/AddressReady';

/** On a Service: what its owner wants. The first of a list wins; those after it are of other load balancers, and are deprecated. */
export const serviceAnnotations = {
  /** Addresses, separated by commas: one of each family at most. */
  addresses: ['vipnat.io/addresses', 'lb.zcloud.cn/vip', 'lb.zdns.cn/vip'],
  /** `random`, `rr` or `hash`. */
  method: ['vipnat.io/method', 'lb.zdns.cn/method'],
  /** `direct` or `kube-proxy`. */
  way: ['vipnat.io/way'],
  /** Services with the same value may share an address. */
  shareKey: ['vipnat.io/share'],
  /** The name of an AddressPool. */
  pool: ['vipnat.io/pool'],
} as const satisfies Record<string, readonly [string, ...string[]]>;

/** On an AddressPool: what a person wants of its seats. */
export const poolAnnotations = {
  /** See `drained.ts`. */
  drained: 'vipnat.io/drained',
} as const;

/** On a node's Lease: what the balancer there has done. See `node-report.ts`. */
export const reportAnnotations = {
  programmed: 'vipnat.io/programmed',
  seats: 'vipnat.io/seats',
  mode: 'vipnat.io/mode',
  inUse: 'vipnat.io/addresses-in-use',
  unsupported: 'vipnat.io/protocols-not-supported',
} as const;

/** kubeadm's masters have it: such a node takes no traffic from outside. Source: k8s.io/api, core/v1, LabelNodeExcludeBalancers. */
export const excludedNodeLabel = 'node.kubernetes.io/exclude-from-external-load-balancers';

/** The Lease by which one controller leads, in vipnat's namespace. */
export const electionLease = 'vipnat-controller';
