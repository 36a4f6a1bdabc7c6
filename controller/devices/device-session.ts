/** A driver with its credentials: opened when it is needed, and anew when the Secret has changed. */
import { type Clock } from '../../lib/control/clock.ts';
import { type TokenQueue } from '../../lib/control/token-queue.ts';
import { type CreateDriver, type LoadBalancerDriver } from '../../lib/devices/driver.ts';
import { type ObjectClient } from '../../lib/kubernetes/object-client.ts';
import { type LoadBalancerDevice } from '../../lib/services/devices.ts';
import { VipnatError } from '../../lib/text/errors.ts';
import { type Credentials, readCredentials } from './credentials.ts';

/** How a driver is found by its name; null for none of that name. */
export type FindDriver = (name: string) => Promise<CreateDriver | null>;

/** What opening takes. */
export interface SessionOptions {
  readonly clock: Clock;
  readonly client: ObjectClient;
  /** Where Secrets are. */
  readonly namespace: string;
  readonly findDriver: FindDriver;
  /** How long a write may take that begins now; 0 for one that may not begin. */
  readonly writeMs: () => number;
  /** How fast requests go out. */
  readonly pace: TokenQueue;
  /** A request goes to a unit. */
  readonly onCall: () => void;
}

/** This process leads no more: nothing was sent. */
export class NotLeadingError extends Error {
  override readonly name = 'NotLeadingError';
}

/** One device's. */
export class DeviceSession {
  readonly #device: LoadBalancerDevice;
  readonly #options: SessionOptions;
  #driver: LoadBalancerDriver | null = null;
  #opening: Promise<LoadBalancerDriver> | null = null;
  #credentials: Credentials | null = null;

  constructor(device: LoadBalancerDevice, options: SessionOptions) {
    this.#device = device;
    this.#options = options;
  }

  /**
   * The driver.
   * @throws VipnatError where there is none, or what it needs cannot be read
   */
  async open(): Promise<LoadBalancerDriver> {
    if (this.#driver !== null) return this.#driver;
    this.#opening ??= this.#open().finally(() => {
      this.#opening = null;
    });
    return await this.#opening;
  }

  /** How many changes the driver takes at once; 1 before it is open. */
  get changesAtOnce(): number {
    return this.#driver?.capabilities.changesAtOnce ?? 1;
  }

  async #open(): Promise<LoadBalancerDriver> {
    const { client, namespace } = this.#options;
    this.#credentials = await readCredentials(client, namespace, this.#device);
    this.#driver = await this.#create(this.#credentials);
    return this.#driver;
  }

  /**
   * Reads the credentials again. Others than before are used from now on: nobody may use the driver meanwhile.
   * @throws VipnatError as `open`
   */
  async renew(): Promise<void> {
    const { client, namespace } = this.#options;
    const credentials = await readCredentials(client, namespace, this.#device);
    if (JSON.stringify(credentials) !== JSON.stringify(this.#credentials)) this.#driver = null;
  }

  async #create(credentials: Credentials): Promise<LoadBalancerDriver> {
    const { clock, findDriver, pace, writeMs, onCall } = this.#options;
    const { metadata, spec } = this.#device;
    const create = await findDriver(spec.driver);
    if (create === null)
      throw new VipnatError(
        'DEVICE_SETTINGS_INVALID',
        `vipnat has no driver ${spec.driver}. Change spec.driver of the LoadBalancerDevice ${metadata.name}`,
      );
    const { cluster, units, options } = spec;
    const settings = { name: metadata.name, cluster, units, ...credentials, options: options ?? {} };
    return create(settings, {
      clock,
      beforeCall: async () => {
        await pace.take();
        if (writeMs() === 0) throw new NotLeadingError('this controller does not lead');
        onCall();
      },
    });
  }
}
