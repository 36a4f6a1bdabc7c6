/** The writers of devices, with a cache, an API for single objects, and one device in memory. */
import type { Clock } from '../../../lib/clock.ts';
import type { CreateDriver } from '../../../devices/driver.ts';
import { FakeClock } from './clock.ts';
import { PlainDevice } from './plain-device.ts';
import type { Cache } from '../../../controller/cache/cache.ts';
import type { ObjectWrite, ObjectClient } from '../../../lib/kubernetes/writes.ts';
import { Devices } from '../../../controller/devices/devices.ts';
import { loadDriver } from '../../../devices/drivers.ts';
import { type DeviceInventory, makeDeviceCache } from './device-objects.ts';
import type { Objects, DeviceBalancer, DeviceReport } from '../../../controller/cache/known.ts';
import { toKey } from '../../../lib/kubernetes/client.ts';

interface Others {
  readonly clock: Clock;
  readonly createDriver: CreateDriver;
  readonly objects: ReadonlyMap<string, object>;
}

export class DeviceWorld {
  readonly clock = new FakeClock();
  readonly device = new PlainDevice();
  readonly cache: Cache;
  /** Single objects by their paths, as the API has them; null for one that must not be read. */
  readonly objects = new Map<string, object | null>();
  readonly writes: ObjectWrite[] = [];
  readonly errors: unknown[] = [];
  devices: Devices;
  isLeading = true;
  readonly #clock: Clock;
  readonly #createDriver: CreateDriver;

  /** With another clock and another device where they are given. */
  constructor(inventory: DeviceInventory, { clock, createDriver, objects }: Partial<Others> = {}) {
    this.cache = makeDeviceCache(inventory);
    this.#clock = clock ?? this.clock;
    this.#createDriver = createDriver ?? this.device.createDriver;
    for (const [path, object] of objects ?? []) this.objects.set(path, object);
    this.devices = this.#start();
  }

  /** Ends, and says what failed, and what is left. */
  async stop(): Promise<{ errors: unknown[]; pending: number }> {
    const stopped = this.devices.stop();
    await this.clock.advance(10_000);
    await stopped;
    return { errors: this.errors, pending: this.clock.pending };
  }

  /** The next leader, whose cache knows nothing of devices. */
  async restart(): Promise<void> {
    const stopped = this.devices.stop();
    await this.clock.advance(50);
    await stopped;
    const { deviceBalancers, deviceReports } = this.cache.view(0);
    for (const key of deviceBalancers.keys()) this.cache.take('deviceBalancers', { key, after: null });
    for (const key of deviceReports.keys()) this.cache.take('deviceReports', { key, after: null });
    this.devices = this.#start();
  }

  /** An informer tells of an object. */
  put<S extends keyof Objects>(source: S, after: Objects[S]): void {
    this.devices.enqueue(this.cache.take(source, { key: toKey(after as never), after }));
  }

  remove(source: keyof Objects, key: string): void {
    this.devices.enqueue(this.cache.take(source, { key, after: null }));
  }

  /** What is known of the Service of a key on a device. */
  find(key: string, device = 'd'): DeviceBalancer | undefined {
    return this.cache.view(0).deviceBalancers.get(`${device} uid of ${key}`);
  }

  get report(): DeviceReport | undefined {
    return this.cache.view(0).deviceReports.get('d');
  }

  /** What was asked of the device since the last time, but for looks at it. */
  takeCalls(): string[] {
    return this.device.calls.splice(0).filter((call) => call !== 'state');
  }

  #start(): Devices {
    const clock = this.#clock;
    const devices: Devices = new Devices({
      ...{ clock, random: () => 0.5, client: this.#createClient(), namespace: 'vipnat-system' },
      findDriver: async (name) => (name === 'plain' ? this.#createDriver : await loadDriver(name)),
      writeMs: () => (this.isLeading ? 4000 : 0),
      view: () => this.cache.view(clock.date().getTime()),
      onReport: (key, after) => {
        devices.enqueue(this.cache.take('deviceReports', { key, after }));
      },
      onBalancer: (key, after) => {
        devices.enqueue(this.cache.take('deviceBalancers', { key, after }));
      },
      onError: (_, error) => this.errors.push(error),
    });
    devices.begin();
    return devices;
  }

  #createClient(): ObjectClient {
    return {
      read: ({ path, schema }) => {
        const object = this.objects.get(path);
        if (object === undefined) return Promise.resolve({ outcome: 'gone' });
        if (object === null)
          return Promise.resolve({ outcome: 'forbidden', detail: 'it is answered with 403' });
        return Promise.resolve({ outcome: 'found', object: schema.parse(object) });
      },
      write: (write) => {
        this.writes.push(write);
        return Promise.resolve({ outcome: 'taken', detail: '', version: '9' });
      },
    };
  }
}
