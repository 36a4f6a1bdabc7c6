/** One writer for each LoadBalancerDevice, while this process leads and all objects are known. */
import type { ClusterView, Watcher } from '../cache/cache.ts';
import type { LoadBalancerDevice } from '../../lib/api/device.ts';
import { type Affected, isNews, listServicesOfNode, listBoth, listServed } from '../cache/known.ts';
import { listOwners } from '../cache/parts.ts';
import { isNodeReady } from '../../lib/api/node.ts';
import { type WriterOptions, DeviceWriter } from './writer.ts';
import { TokenQueue, type QueueStatistics, joinStatistics } from '../../lib/queue.ts';

/** What writers are notified of, besides steps: see `Affected`. Keys of `Device` are names, those of `DeviceService` are those of Services. */
export const deviceWatchers: readonly Watcher[] = [
  { name: 'Device', watches: [{ source: 'devices', part: getParts, toKeys: ({ key }) => [key] }] },
  {
    name: 'DeviceService',
    watches: [
      {
        source: 'services',
        // What is said of a Service is no reason to ask a device again.
        part: ({ metadata: { uid, deletionTimestamp, annotations, finalizers }, spec, status }) => [
          ...[uid, deletionTimestamp, annotations, finalizers, spec],
          status?.loadBalancer,
        ],
        toKeys: ({ key }) => [key],
      },
      {
        source: 'endpointSlices',
        part: ({ metadata, ...rest }) => [metadata.labels, rest],
        toKeys: (change) => listBoth(change, listOwners).flat(),
      },
      {
        source: 'pods',
        part: ({ metadata: { annotations, deletionTimestamp }, status }) => [
          ...[annotations, deletionTimestamp, status?.podIPs],
          status?.conditions?.map(({ type, status: is }) => [type, is]),
        ],
        isAskedBefore: true,
        toKeys: ({ key }, { podToServices }) => podToServices.get(key) ?? [],
      },
      { source: 'nodes', part: isNodeReady, toKeys: listServicesOfNode },
      {
        source: 'deviceNodes',
        part: ({ metadata: { name }, ...rest }) => [name, rest],
        toKeys: (_, { deviceToServices }) => [...deviceToServices.values()].flatMap((keys) => [...keys]),
      },
      {
        // What one device has decides when another one takes it away.
        source: 'deviceBalancers',
        part: ({ deviceStatus, addresses }) => [deviceStatus, addresses],
        toKeys: (change) => listBoth(change, listServed).flat(),
      },
    ],
  },
];

/** What a writer works with: another one of it takes another writer. */
function getParts({ metadata, spec }: LoadBalancerDevice): unknown {
  return [metadata.uid, metadata.generation, spec];
}

/** The older one of two devices whose objects nobody could tell apart: they have a unit and the cluster's name in common. */
function findConflict(device: LoadBalancerDevice, all: readonly LoadBalancerDevice[]): string | null {
  const { cluster, units } = device.spec;
  const own = new Set(units.map(toPlainUnit));
  const rank = ({ metadata: { creationTimestamp, name } }: LoadBalancerDevice) =>
    `${creationTimestamp ?? ''} ${name}`;
  const [oldest = rank(device)] = all
    .filter(({ spec }) => spec.cluster === cluster && spec.units.some((unit) => own.has(toPlainUnit(unit))))
    .map(rank)
    .sort();
  return oldest < rank(device) ? oldest.slice(oldest.indexOf(' ') + 1) : null;
}

/** `https://LB1/`, `lb1:443` and `lb1:9443` are one: a unit without a port has one of these, by its driver. */
function toPlainUnit(unit: string): string {
  const url = URL.parse(unit.includes('://') ? unit : `https://${unit}`) ?? URL.parse(`https://[${unit}]`);
  return (url?.host ?? unit).replace(/:9?443$/, '');
}

/** What no other cluster has, by the uid of the namespace that each one has; undefined where that is not there. */
function readIdentity({ namespaces }: ClusterView): string | undefined {
  return /^[\da-f]{8}/.exec(namespaces.get('kube-system')?.metadata.uid ?? '')?.[0];
}

type DevicesOptions = Omit<WriterOptions, 'pace' | 'conflict' | 'identity'>;

/** Writes from `begin` to `stop`. */
export class Devices {
  readonly #options: DevicesOptions;
  readonly #nameToWriter = new Map<string, DeviceWriter>();
  /** By names of devices: the next writer continues with what the one before has left, or a change of the spec would be a new budget. */
  readonly #nameToPace = new Map<string, { readonly callsPerSecond: number; readonly queue: TokenQueue }>();
  /** One writer after the other: none begins before the last call of the one before has ended. */
  readonly #nameToEnd = new Map<string, Promise<void>>();
  #hasBegun = false;
  #isStopped = false;

  constructor(options: DevicesOptions) {
    this.#options = options;
  }

  /** All objects are known. */
  begin(): void {
    this.#hasBegun = true;
    this.#syncAll();
  }

  /** The cache has taken a change. */
  enqueue({ keys }: Affected): void {
    if (!this.#hasBegun || this.#isStopped) return;
    for (const { kind, key } of keys) {
      if (kind === 'Device') this.#syncAll();
      if (kind === 'DeviceService') for (const writer of this.#nameToWriter.values()) writer.consider(key);
    }
  }

  /** Each device, to how many requests it got. */
  get calls(): ReadonlyMap<string, number> {
    return new Map([...this.#nameToWriter].map(([name, { calls }]) => [name, calls]));
  }

  /** How the queues do; null where there is none. */
  get statistics(): QueueStatistics | null {
    const all = [...this.#nameToWriter.values()].map(({ statistics }) => statistics);
    return all.length === 0 ? null : all.reduce(joinStatistics);
  }

  /** Begins nothing more, and ends when all calls in progress have. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    for (const name of this.#nameToWriter.keys()) this.#end(name);
    await Promise.all(this.#nameToEnd.values());
  }

  /** Which of two devices is used depends on both. */
  #syncAll(): void {
    const { devices } = this.#options.view();
    for (const name of new Set([...this.#nameToWriter.keys(), ...devices.keys()])) this.#sync(name);
  }

  /** Another spec takes another writer, which finds by `list` what the one before has done. */
  #sync(name: string): void {
    const { devices } = this.#options.view();
    const device = devices.get(name) ?? null;
    const { device: before = null, conflict: known = null } = this.#nameToWriter.get(name) ?? {};
    const conflict = device === null ? null : findConflict(device, [...devices.values()]);
    if (!isNews({ key: name, before, after: device }, getParts) && conflict === known) return;
    if (before !== null) this.#end(name);
    if (device === null) return;
    const identity = readIdentity(this.#options.view());
    const pace = this.#getPace(device);
    const writer = new DeviceWriter(device, { ...this.#options, pace, conflict, identity });
    this.#nameToWriter.set(name, writer);
    void this.#begin(name, writer);
  }

  #getPace({ metadata: { name }, spec: { callsPerSecond } }: LoadBalancerDevice): TokenQueue {
    const known = this.#nameToPace.get(name);
    if (known?.callsPerSecond === callsPerSecond) return known.queue;
    const perSecond = Math.max(1, callsPerSecond);
    const budget = { capacity: perSecond, refillMs: 1000 / perSecond };
    const queue = new TokenQueue(budget, this.#options.clock);
    this.#nameToPace.set(name, { callsPerSecond, queue });
    return queue;
  }

  async #begin(name: string, writer: DeviceWriter): Promise<void> {
    await this.#nameToEnd.get(name);
    if (this.#nameToWriter.get(name) === writer && !this.#isStopped) writer.start();
  }

  #end(name: string): void {
    const known = this.#nameToWriter.get(name);
    this.#nameToWriter.delete(name);
    const before = this.#nameToEnd.get(name) ?? Promise.resolve();
    const end = Promise.all([before, known?.stop()]).then(() => {
      this.#forget(name);
    });
    this.#nameToEnd.set(name, end);
  }

  /** What the writer knew is as old as it. */
  #forget(name: string): void {
    if (this.#isStopped) return;
    const { onReport, onBalancer, view } = this.#options;
    onReport(name, null);
    for (const [key, { device }] of view().deviceBalancers) if (device === name) onBalancer(key, null);
  }
}
