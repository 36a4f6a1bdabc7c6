/** Two controllers and an API of a cluster, and devices in memory, on one clock; and what has to be so at any moment. */
import { LifeClock } from '../rollouts/life-clock.ts';
import { Link } from '../rollouts/memory-network.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { Random } from '../../../support/random/random.ts';
import { MemoryApi } from '../rollouts/memory-api.ts';
import { PlainDevice, listTexts } from '../../../support/fakes/plain-device.ts';
import { ControllerLog } from '../../../../controller/report/log.ts';
import { createRecordingLogger } from '../../../support/fakes/logger.ts';
import { noEvents } from '../../../../lib/telemetry/events.ts';
import { Controller } from '../../../../controller/main.ts';
import { RoutedClient } from '../../../../lib/kubernetes/writes.ts';
import type { StoredObject } from '../../../support/fakes/object-api.ts';
import { parseMark, type Balancer } from '../../../../devices/driver.ts';

/** A name of a device, to its addresses: some are in both. */
const ranges = {
  c: { d1: '10.9.0.1-10.9.0.4', d2: '10.9.0.3-10.9.0.8' },
  k: { d1: '10.9.1.1-10.9.1.4', d2: '10.9.1.3-10.9.1.8' },
} as const;

export type DeviceName = keyof typeof ranges.c;

/** Objects of nobody's, and of other clusters, one of the same name: none is of a Service that there is. */
export const foreign = new Map([
  ['admin_web', 'by hand'],
  ['vipnat_other_apps_s0_uid-1', '{"addresses":[]}'],
  ['vipnat_c_apps_s0_uid-0', '{"addresses":[],"identity":"bbbbbbbb"}'],
]);

/** All is compared in that time. */
const noticedMs = 6 * 60_000;

export interface Life {
  readonly clock: LifeClock;
  readonly link: Link;
}

/** What all clusters have in common. */
function share(seed: number): Pick<World, 'clock' | 'forgotten' | 'random' | 'devices'> {
  const devices = { d1: new PlainDevice(), d2: new PlainDevice() };
  return {
    clock: new FakeClock(undefined, 1),
    forgotten: { ms: -Infinity },
    random: new Random(seed),
    devices,
  };
}

export class World {
  readonly clock: FakeClock;
  readonly random: Random;
  readonly api: MemoryApi;
  readonly devices: Readonly<Record<DeviceName, PlainDevice>>;
  readonly cluster: keyof typeof ranges;
  /** What a standby has that gets nothing any more. */
  readonly behind = new Map<DeviceName, ReadonlyMap<string, string>>();
  readonly complaints: string[] = [];
  controllers: Life[] = [];
  /** When a device forgot something, or was another unit that had missed something. */
  readonly forgotten: { ms: number };
  #made = 0;

  /** The first cluster of a seed, or a second one on the devices of that. */
  constructor(first: number | World) {
    const shared = typeof first === 'number' ? share(first) : first;
    this.cluster = shared === first ? 'k' : 'c';
    ({ clock: this.clock, forgotten: this.forgotten, random: this.random, devices: this.devices } = shared);
    this.api = new MemoryApi(this.clock, () => undefined);
    for (const [name, device] of Object.entries(this.devices)) this.#judgeWrites(name as DeviceName, device);
    const { objects } = this.api;
    objects.create('Namespace', 'apps', {});
    objects.create('Namespace', 'kube-system', { metadata: { uid: 'aaaaaaaa-0000-4000-8000-000000000000' } });
    for (const name of ['d1', 'd2'] as const) {
      const spec = { driver: name, cluster: this.cluster, units: [`${name}a`, `${name}b`], targets: 'pods' };
      const addresses = [ranges[this.cluster][name]];
      objects.create('LoadBalancerDevice', name, { spec: { ...spec, addresses, callsPerSecond: 100 } });
    }
    for (let index = 0; index < 2; index += 1) this.startController();
  }

  startController(): void {
    const clock = new LifeClock(this.clock);
    const link = new Link(clock, this.api);
    const route = link.createRoute();
    const random = () => this.random.below(1000) / 1000;
    const settings = { namespace: 'vipnat-system', isDefaultClass: false, defaultDevice: 'd1' };
    const identity = `c${(this.#made += 1)}`;
    const log = new ControllerLog(createRecordingLogger(), noEvents, clock);
    const controller = new Controller(
      {
        ...{ route, clock, random, log, onDrained: () => undefined },
        client: new RoutedClient(route, clock, new AbortController().signal),
        findDriver: (name) => Promise.resolve(this.devices[name as DeviceName].createDriver),
      },
      { ...settings, identity, gateTypes: new Set(), apiVips: [] },
    );
    controller.start();
    this.controllers.push({ clock, link });
  }

  findService(uid: string): StoredObject | null {
    return (
      [...this.api.objects.list('Service').values()].find(({ metadata }) => metadata.uid === uid) ?? null
    );
  }

  #judgeWrites(name: DeviceName, device: PlainDevice): void {
    for (const [key, value] of foreign) device.objects.set(key, value);
    const { onWrite } = device;
    device.onWrite = (object, value) => {
      onWrite(object, value);
      this.#judge(name, object, value);
    };
  }

  #judge(name: DeviceName, object: string, value: string | null): void {
    const mark = parseMark(object, this.cluster);
    if (foreign.has(object)) this.complaints.push(`${name}: ${object} is of others, and is written`);
    if (mark === null || mark.rest.length > 0) return;
    const service = this.findService(mark.id.uid);
    if (value === null) this.#judgeRemoval(name, object, service);
    else this.#judgePut(name, mark.id.uid, JSON.parse(value) as Balancer, service);
  }

  #judgePut(name: DeviceName, uid: string, { addresses }: Balancer, service: StoredObject | null): void {
    if (service?.metadata.finalizers?.includes(`device.vipnat.io/${name}`) !== true)
      this.complaints.push(`${name} gets ${uid} without its finalizer`);
    // A former Service's address may be there again.
    if (this.#isUnnoticed) return;
    for (const [other, device] of Object.entries(this.devices))
      for (const { id, addresses: theirs } of device.list(this.cluster))
        if (id.uid !== uid && listTexts(theirs).some((text) => listTexts(addresses).includes(text)))
          this.complaints.push(`${name} gets ${uid} an address that ${id.uid} has on ${other}`);
  }

  get #isUnnoticed(): boolean {
    return this.clock.now() - this.forgotten.ms < noticedMs;
  }

  /** What lives and has chosen a device is served by another one first. What a device has forgotten, nobody knows at once. */
  #judgeRemoval(name: DeviceName, object: string, service: StoredObject | null): void {
    if (service === null || service.metadata.deletionTimestamp !== undefined) return;
    if (readChoice(service) === null || this.#isUnnoticed) return;
    const follows = Object.entries(this.devices).some(
      ([other, device]) =>
        other !== name && device.list(this.cluster).some(({ id }) => id.uid === service.metadata.uid),
    );
    if (!follows) this.complaints.push(`${name} loses ${object}, and nothing follows`);
  }
}

/** The device that a Service chooses: those of this world have no other classes. */
export function readChoice({ spec, metadata }: StoredObject): DeviceName | null {
  if (spec?.['type'] !== 'LoadBalancer') return null;
  const ofService = spec['loadBalancerClass'] as string | undefined;
  if (ofService !== undefined) return ofService.replace('vipnat.io/', '') as DeviceName;
  return JSON.stringify(metadata).includes('lb.zcloud.cn/vip') ? 'd1' : null;
}
