import * as z from 'zod/mini';
import {
  strict,
  rule,
  range,
  describeConditions,
  metadata,
  apiGroup,
  apiVersion,
  loadBalancerClass,
  serviceAnnotations,
  deviceFinalizerPrefix,
  excludedNodeLabel,
  serviceSelectors,
  duration,
} from './vipnat.ts';
import type { Resource } from '../kubernetes/client.ts';
import type { Service } from './service.ts';
import { conditions, ofNodes, findEnding } from './node.ts';
import { type Address, parseAddress } from '../net.ts';

const unit = z.object({
  unit: z.string(),
  role: z.string().register(strict, { description: 'The role that the unit reports.' }),
  isInSync: z.nullish(z.boolean()).register(strict, {
    nullable: true,
    description: 'Whether it has what the active unit has.',
  }),
  why: z._default(z.string(), '').register(strict, { maxLength: 1024 }),
});

const drain = z.object({
  service: z.string().register(strict, { description: 'NAMESPACE/NAME.' }),
  member: z.string().register(strict, { description: 'ADDRESS:PORT.' }),
  since: z.string().register(strict, { format: 'date-time' }),
  sessions: z.nullish(z.number()).register(strict, {
    nullable: true,
    description: 'Open connections, as the device counted them last.',
  }),
});

/** A name of a cluster, as `isClusterName` judges it. */
const clusterName = '^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$';

/** Source: RFC 1123, as Kubernetes reads it for the names of most objects. */
const objectName = String.raw`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$`;

/** Its objects on the device have the old mark, or are another device's: nobody would find them. */
const isKept = rule('self == oldSelf', 'cannot be changed: make another LoadBalancerDevice');

/** The drivers that vipnat has, by the names in `spec.driver`. */
export const shippedDrivers = ['alteon', 'haproxy'] as const;

const deviceSpec = z.object({
  driver: z.string().register(strict, {
    maxLength: 40,
    pattern: '^[a-z0-9-]+$',
    description: `The driver: ${shippedDrivers.join(', ')}, or the name of a module that the controller has by --driver.`,
    'x-kubernetes-validations': [isKept],
  }),
  cluster: z.string().register(strict, {
    pattern: clusterName,
    description:
      'The name of this cluster in the names of its objects on the device. No two clusters share one.',
    'x-kubernetes-validations': [isKept],
  }),
  units: z.array(z.string().register(strict, { minLength: 1, pattern: String.raw`^\S+$` })).register(strict, {
    description: 'Addresses for the management of the device, each a URL or HOST:PORT. A pair has two.',
    minItems: 1,
    maxItems: 2,
  }),
  credentialsSecret: z
    .nullish(z.object({ name: z.string().register(strict, { pattern: objectName }) }))
    .register(strict, {
      description:
        'A Secret in the namespace of vipnat with the keys username and password. ca.crt signs the certificates of the units.',
    }),
  targets: z
    ._default(z.string().register(strict, { enum: ['pods', 'nodePorts'] }), 'nodePorts')
    .register(strict, {
      description: 'Targets of connections. With pods, the device must have routes to pods.',
    }),
  addresses: z.array(range).register(strict, {
    description: 'Addresses for Services on this device, as an AddressPool has them.',
    minItems: 1,
    maxItems: 64,
  }),
  reuseAfter: z._default(duration, '60s').register(strict, {
    description:
      'How long the device keeps a returned address for Services of the same namespace, while others are free.',
  }),
  ...serviceSelectors,
  callsPerSecond: z._default(z.number(), 20).register(strict, {
    minimum: 1,
    maximum: 1000,
    description: 'How many requests a second vipnat sends to the device at most.',
  }),
  options: z
    .nullish(z.record(z.string(), z.string().register(strict, { maxLength: 1024 })))
    .register(strict, { maxProperties: 64, description: 'Options of the driver.' }),
});

const deviceStatus = z.object({
  units: z.nullish(z.array(unit)).register(strict, { description: 'The units, as they were seen last.' }),
  balancers: z.nullish(z.number()).register(strict, {
    nullable: true,
    description: 'How many Services the device has something of.',
  }),
  foreignChanges: z.nullish(z.array(z.string().register(strict, { maxLength: 1024 }))).register(strict, {
    description: 'Changes of other users on the device that wait to be applied: the first 10.',
  }),
  draining: z.nullish(z.array(drain)).register(strict, {
    description: 'Members that get no new connections: the 100 that have drained for longest.',
  }),
  observedGeneration: z.nullish(z.number()).register(strict, {
    format: 'int64',
    description: 'The generation that this is about.',
  }),
  conditions: describeConditions('Ready.'),
});

/** Classes and finalizers have the name after a slash. `vipnat.io/lb` is the class of the nodes. */
const isNameOfDevice = rule(
  "size(self.metadata.name) <= 63 && !self.metadata.name.contains('.') && self.metadata.name != 'lb'",
  'the name must have 63 characters at most and no dot, and must not be lb',
);

const device = z
  .object({ metadata, spec: deviceSpec, status: z.nullish(deviceStatus) })
  .register(strict, { 'x-kubernetes-validations': [isNameOfDevice] });

/** A load balancer outside of the cluster. */
export type LoadBalancerDevice = z.output<typeof device>;

/** A unit, as the status has it. */
export type DeviceUnit = z.output<typeof unit>;

/** A member of a Service on a device that gets no new connections, as the status has it. */
export type DeviceDrain = z.output<typeof drain>;

/** All of them. An older API does not have the kind: then there is none. */
export const devices: Resource<LoadBalancerDevice> = {
  kind: 'LoadBalancerDevice',
  path: `/apis/${apiGroup}/${apiVersion}/loadbalancerdevices`,
  selector: '',
  schema: device,
  limits: { characters: 4_000_000, page: 500, objects: 1000 },
  mayBeMissing: true,
};

/**
 * The device that is to have a Service: by its class `vipnat.io/NAME`, or the given one where the Service has no class, and an
 * annotation of another controller of devices. Null for none, and for a Service that ends. Nobody knows whether there is such a device.
 */
export function chooseDevice(
  { metadata: own, spec }: Service,
  defaultDevice: string | undefined,
): string | null {
  if (spec.type !== 'LoadBalancer' || typeof own.deletionTimestamp === 'string') return null;
  const { loadBalancerClass: ofService } = spec;
  if (typeof ofService === 'string')
    return ofService === loadBalancerClass ? null : readName(ofService, apiGroup);
  const [, ...former] = serviceAnnotations.addresses;
  const hasFormer = former.some((name) => Object.hasOwn(own.annotations ?? {}, name));
  return hasFormer ? (defaultDevice ?? null) : null;
}

/** Whether a device may have this name: classes and finalizers have it after a slash. */
export function isDeviceName(text: string): boolean {
  return /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/.test(text) && text !== readName(loadBalancerClass, apiGroup);
}

/** A module with a driver, by the name that `spec.driver` has for it. */
interface DriverModule {
  readonly name: string;
  readonly path: string;
}

/** What a text says that is `NAME=FILE.mjs`; null for any other, and for the name of a driver that vipnat has. */
export function parseDriverModule(text: string): DriverModule | null {
  const [, name = '', path = ''] = /^([a-z0-9-]{1,40})=(.+\.[cm]?[jt]s)$/.exec(text) ?? [];
  return name === '' || shippedDrivers.some((each) => each === name) ? null : { name, path };
}

/** The finalizer of a Service for a device. */
export function toDeviceFinalizer(name: string): string {
  return `${deviceFinalizerPrefix}/${name}`;
}

/** The devices that have, or may have, something of a Service, by its finalizers. */
export function listCurrentOwners({ metadata: own }: Pick<Service, 'metadata'>): string[] {
  return (own.finalizers ?? []).flatMap((each) => readName(each, deviceFinalizerPrefix) ?? []);
}

function readName(text: string, prefix: string): string | null {
  return text.startsWith(`${prefix}/`) ? text.slice(prefix.length + 1) : null;
}

/** Nodes as targets of devices: where their ports answer, and whether they are to get connections from outside. */
const node = z.object({
  metadata: z.pick(metadata, { name: true, resourceVersion: true, deletionTimestamp: true, labels: true }),
  spec: z.nullish(z.object({ taints: z.nullish(z.array(z.object({ key: z.string() }))) })),
  status: z.nullish(
    z.object({
      addresses: z.nullish(z.array(z.object({ type: z.string(), address: z.string() }))),
      conditions: z.nullish(conditions),
    }),
  ),
});

type FoundNode = z.output<typeof node>;

/** A Node of v1, as devices see it. Heartbeats change nothing of it. */
export interface DeviceNode {
  readonly metadata: { readonly name: string; readonly resourceVersion: string };
  /** Its InternalIPs. */
  readonly addresses: readonly Address[];
  /** Whether it is to get new connections: it is ready, stays, and nobody excludes it. */
  readonly takesConnections: boolean;
  /** Whether that is only because Kubernetes receives nothing of it. */
  readonly isUnresponsive: boolean;
}

/** All nodes. */
export const deviceNodes: Resource<DeviceNode> = {
  ...ofNodes,
  schema: z.pipe(node, z.transform(toDeviceNode)),
};

/** Source: cluster-autoscaler, utils/taints, ToBeDeletedTaint. k8s.io/cloud-provider leaves such nodes out, too. */
const leavingTaint = 'ToBeDeletedByClusterAutoscaler';

function toDeviceNode(node: FoundNode): DeviceNode {
  const { metadata, status } = node;
  const ready = status?.conditions?.find(({ type }) => type === 'Ready')?.status;
  return {
    metadata: { name: metadata.name, resourceVersion: metadata.resourceVersion },
    addresses: (status?.addresses ?? []).flatMap(({ type, address }) =>
      type === 'InternalIP' ? (parseAddress(address) ?? []) : [],
    ),
    takesConnections: ready === 'True' && isUsable(node),
    isUnresponsive: ready === 'Unknown' && isUsable(node),
  };
}

function isUsable({ metadata: { labels, deletionTimestamp }, spec, status }: FoundNode): boolean {
  const isLeaving = typeof deletionTimestamp === 'string' || Object.hasOwn(labels ?? {}, excludedNodeLabel);
  const isTainted = (spec?.taints ?? []).some(({ key }) => key === leavingTaint);
  return !isLeaving && !isTainted && findEnding(status?.conditions ?? []) === null;
}
