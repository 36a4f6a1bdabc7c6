/** The controller's writer with a simulated pair of Alteon and many Services: each request takes a time of its own, which nobody waits for. */
import { AlteonSimulator } from './alteon-simulator.ts';
import { DeviceWorld } from '../fakes/device-world.ts';
import { HurriedClock } from './hurried-clock.ts';
import { makeDevice, makeDeviceService, makeSlice } from '../fakes/device-objects.ts';
import { createAlteon } from '../../../devices/alteon/driver.ts';
import { sleep } from '../../../lib/clock.ts';

interface ScaleOptions {
  readonly services: number;
  readonly pods: number;
  readonly callMs: number;
  readonly callsPerSecond: number;
}

/** What something cost. */
export interface Cost {
  readonly calls: number;
  readonly writes: number;
  readonly ms: number;
}

const secret = '/api/v1/namespaces/vipnat-system/secrets/vipnat-devices';

export class AlteonScale {
  readonly device: AlteonSimulator;
  readonly world: DeviceWorld;
  /** When each request went out. */
  readonly callMs: number[] = [];
  readonly #clock = new HurriedClock();
  readonly #keys: readonly string[];
  readonly #pods: number;

  static async start(options: ScaleOptions): Promise<AlteonScale> {
    return new AlteonScale(await new AlteonSimulator().start(), options);
  }

  private constructor(device: AlteonSimulator, { services, pods, callMs, callsPerSecond }: ScaleOptions) {
    this.device = device;
    this.#pods = pods;
    this.#keys = Array.from({ length: services }, (_, at) => `apps/s${at}`);
    const { urls, ca, credentials } = device;
    const texts = Object.entries({ ...credentials, 'ca.crt': ca });
    const data = Object.fromEntries(texts.map(([key, text]) => [key, Buffer.from(text).toString('base64')]));
    const spec = { units: urls, targets: 'pods', addresses: ['10.9.0.0/20'], callsPerSecond };
    this.world = new DeviceWorld(
      {
        devices: [makeDevice('d', { ...spec, credentialsSecret: { name: 'vipnat-devices' } })],
        services: this.#keys.map((key) => makeDeviceService(key, 'd', { metadata: { uid: toUid(key) } })),
        endpointSlices: this.#keys.map((key, at) => makeSlice(key, this.#listPods(at, 0))),
      },
      {
        ...{ clock: this.#clock, objects: new Map([[secret, { data }]]) },
        createDriver: (settings, { clock, beforeCall }) =>
          createAlteon(settings, {
            clock,
            beforeCall: async (call) => {
              await beforeCall(call);
              this.callMs.push(this.#clock.now());
              await sleep(clock, callMs);
            },
          }),
      },
    );
  }

  /** The first of these Services get another pod instead of their first one. */
  replacePods(count: number, round: number): void {
    for (const [at, key] of this.#keys.slice(0, count).entries())
      this.world.put('endpointSlices', makeSlice(key, this.#listPods(at, round)));
  }

  /** What the act costs until all Services are served as they are wanted. */
  async measure(act: () => Promise<void> | void): Promise<Cost> {
    const [calls, writes, ms] = [this.device.calls.length, this.device.writes.length, this.#clock.now()];
    await act();
    while (!this.#isQuiet()) await new Promise((resolve) => setImmediate(resolve));
    return {
      calls: this.device.calls.length - calls,
      writes: this.device.writes.length - writes,
      ms: this.#clock.now() - ms,
    };
  }

  async stop(): Promise<void> {
    await this.world.devices.stop();
    await this.device.stop();
  }

  #isQuiet(): boolean {
    const { depth = 0, working = 0 } = this.world.devices.statistics ?? {};
    if (depth + working > 0) return false;
    const { deviceBalancers } = this.world.cache.view(0);
    return this.#keys.every((key) => deviceBalancers.get(`d ${toUid(key)}`)?.deviceStatus === 'serves');
  }

  #listPods(service: number, round: number): string[] {
    const first = `10.${100 + round}.${service >> 8}.${service & 255}`;
    const others = Array.from(
      { length: this.#pods - 1 },
      (_, at) => `10.${at + 1}.${service >> 8}.${service & 255}`,
    );
    return [first, ...others];
  }
}

/** A real one has no slash. */
function toUid(key: string): string {
  return key.replace('/', '-');
}
