/** Load balancers outside of the cluster, as the API has them, and which of them a Service chooses. */
import * as z from 'zod/mini';
import { type Resource } from '../kubernetes/resources.ts';
import { condition, metadata } from './metadata.ts';
import {
  apiGroup,
  apiVersion,
  deviceFinalizerPrefix,
  loadBalancerClass,
  serviceAnnotations,
} from './names.ts';
import { type Service } from './services.ts';

const unit = z.object({
  unit: z.string(),
  role: z.string(),
  isInSync: z.nullish(z.boolean()),
  why: z._default(z.string(), ''),
});

const drain = z.object({
  /** `NAMESPACE/NAME`. */
  service: z.string(),
  /** `10.1.2.3:8080`. */
  member: z.string(),
  /** As the API writes dates. */
  since: z.string(),
  sessions: z.nullish(z.number()),
});

const device = z.object({
  metadata,
  spec: z.object({
    driver: z.string(),
    /** The cluster's name in each mark on the device. */
    cluster: z.string(),
    /** One, or two of a pair. */
    units: z.array(z.string()),
    /** In vipnat's own namespace: `username`, `password`, `ca.crt`. */
    credentialsSecret: z.nullish(z.object({ name: z.string() })),
    /** `pods`, where the device can route to them, or `nodePorts`. */
    targets: z._default(z.string(), 'nodePorts'),
    /** Which addresses Services may have there, as those of an AddressPool. */
    addresses: z.array(z.string()),
    /** How many requests a second it gets at most. */
    callsPerSecond: z._default(z.number(), 20),
    options: z.nullish(z.record(z.string(), z.string())),
  }),
  status: z.nullish(
    z.object({
      units: z.nullish(z.array(unit)),
      /** How many Services it has something of. */
      balancers: z.nullish(z.number()),
      /** What other users have changed on it and not applied. */
      foreignChanges: z.nullish(z.array(z.string())),
      draining: z.nullish(z.array(drain)),
      observedGeneration: z.nullish(z.number()),
      /** Ready. */
      conditions: z.nullish(z.array(condition)),
    }),
  ),
});

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

/** The finalizer of a Service for a device. */
export function toDeviceFinalizer(name: string): string {
  return `${deviceFinalizerPrefix}/${name}`;
}

/** The devices that have, or may have, something of a Service, by its finalizers. */
export function listHolders({ metadata: own }: Pick<Service, 'metadata'>): string[] {
  return (own.finalizers ?? []).flatMap((each) => readName(each, deviceFinalizerPrefix) ?? []);
}

function readName(text: string, prefix: string): string | null {
  return text.startsWith(`${prefix}/`) ? text.slice(prefix.length + 1) : null;
}
