/** Devices, and what stands behind Services on them, as informers have it. */
import type { Capabilities } from '../../../devices/driver.ts';
import { type LoadBalancerDevice, devices, type DeviceNode, deviceNodes } from '../../../lib/api/device.ts';
import { finalizer } from '../../../lib/api/vipnat.ts';
import {
  type Service,
  type ServiceSlice,
  endpointSlices,
  serviceNameLabel,
} from '../../../lib/api/service.ts';
import { makeService, nowMs } from './service-objects.ts';
import { type Objects, toBalancerKey, type DeviceBalancer } from '../../../controller/cache/known.ts';
import { Cache, type ClusterView } from '../../../controller/cache/cache.ts';
import { toGateTypes } from '../../../lib/api/endpoints.ts';
import { kinds } from '../../../controller/leadership.ts';
import { deviceWatchers } from '../../../controller/devices/devices.ts';
import { toKey } from '../../../lib/kubernetes/client.ts';

type Fields = Readonly<Record<string, unknown>>;

/** What the whole of a device can do. */
export const whole: Capabilities = {
  ...{ methods: ['rr', 'lc', 'hash'], weights: true, drain: true, sessions: false, affinity: true },
  ...{ ipv6: true, udp: true, atomicCommit: false, pair: false, pendingChanges: true },
};

/** Of a name, with four addresses; with what its condition says, a controller has looked at it. */
export function makeDevice(
  name: string,
  spec: Fields = {},
  metadata: Fields = {},
  condition: Fields | null = null,
): LoadBalancerDevice {
  const ready = { type: 'Ready', status: 'True', reason: 'Ready', message: 'The unit u1 is active.' };
  return devices.schema.parse({
    metadata: {
      ...{ name, uid: `uid of ${name}`, resourceVersion: '5', generation: 1 },
      ...{ finalizers: [finalizer], ...metadata },
    },
    spec: { driver: 'plain', cluster: 'c', units: ['u1'], addresses: ['10.9.0.1-10.9.0.4'], ...spec },
    status: condition === null ? undefined : { conditions: [{ ...ready, ...condition }], ...condition },
  });
}

/** Of the class of a device, with its finalizer. */
export function makeDeviceService(
  key: string,
  device: string,
  { spec = {}, metadata = {}, status = {} }: { spec?: Fields; metadata?: Fields; status?: Fields } = {},
): Service {
  return makeService(key, {
    metadata: { finalizers: [`device.vipnat.io/${device}`], ...metadata },
    spec: { loadBalancerClass: `vipnat.io/${device}`, ports: [{ port: 80, nodePort: 30_080 }], ...spec },
    status,
  });
}

/** What a status has that publishes addresses of a device. */
export function publishOf(...ips: readonly string[]): Fields {
  return { loadBalancer: { ingress: ips.map((ip) => ({ ip, ipMode: 'Proxy' })) } };
}

/** One endpoint: `10.1.0.1@n1` is ready on n1, `-` before it ends, `!` is not ready. */
export function makeSlice(
  service: string,
  endpoints: readonly string[],
  ports: readonly object[] = [{ port: 8080 }],
): ServiceSlice {
  const [namespace = '', name = ''] = service.split('/');
  return endpointSlices.schema.parse({
    metadata: { namespace, name, resourceVersion: '7', labels: { [serviceNameLabel]: name } },
    addressType: 'IPv4',
    ports: ports.map((port) => ({ name: '', protocol: 'TCP', ...port })),
    endpoints: endpoints.map((text) => {
      const [, mark = '', address = '', nodeName] = /^([-!]?)([^@]+)(?:@(.+))?$/.exec(text) ?? [];
      const conditions = { ready: mark === '', terminating: mark === '-', serving: mark !== '!' };
      return { addresses: [address], conditions, nodeName };
    }),
  });
}

/** A node that takes connections, unless it is said otherwise. */
export function makeDeviceNode(name: string, address: string, more: Fields = {}): DeviceNode {
  return deviceNodes.schema.parse({
    metadata: { name, resourceVersion: '3', ...(more['metadata'] as Fields | undefined) },
    spec: more['spec'],
    status: {
      addresses: [{ type: 'InternalIP', address }],
      conditions: more['conditions'] ?? [{ type: 'Ready', status: 'True' }],
    },
  });
}

/** What there is, by the names of sources. */
export type DeviceInventory = { readonly [S in keyof Objects]?: readonly Objects[S][] };

/** A cache that has heard of all of it. */
export function makeDeviceCache(inventory: DeviceInventory, defaultDevice?: string): Cache {
  const settings = { isDefaultClass: false, gateTypes: toGateTypes([]) };
  const cache = new Cache(defaultDevice === undefined ? settings : { ...settings, defaultDevice }, [
    ...kinds,
    ...deviceWatchers,
  ]);
  for (const [source, objects] of Object.entries(inventory))
    for (const object of objects) {
      const key =
        source === 'deviceBalancers'
          ? toBalancerKey((object as DeviceBalancer).device, (object as DeviceBalancer).id.uid)
          : toKey(object as never);
      cache.take(source as keyof Objects, { key, after: object });
    }
  return cache;
}

export function makeDeviceWorld(inventory: DeviceInventory, defaultDevice?: string): ClusterView {
  return makeDeviceCache(inventory, defaultDevice).view(nowMs);
}

/** That a device serves a Service of `makeService`, unless it is said otherwise. */
export function makeBalancer(
  device: string,
  key: string,
  parts: Partial<DeviceBalancer> = {},
): DeviceBalancer {
  const [namespace = '', name = ''] = key.split('/');
  return {
    ...{ device, id: { cluster: 'c', namespace, name, uid: `uid of ${key}` }, deviceStatus: 'serves' },
    ...{ addresses: ['10.9.0.1'], problem: null, remark: null, gated: [], isTakenOver: false, ...parts },
  };
}
