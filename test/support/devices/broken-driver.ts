import {
  type Capabilities,
  type LoadBalancerDriver,
  type DeviceSettings,
  type DriverContext,
  type Progress,
  DeviceError,
  type Balancer,
  type Listener,
  type Member,
} from '../../../devices/driver.ts';
import type { FakeDevice, FakeRequest } from './fake-device.ts';
import type { Serve } from './fake-target.ts';
import type { Clock } from '../../../lib/clock.ts';
import { createFakeDriver } from './fake-driver.ts';

/** A driver that breaks one promise, and keeps all others. */
export interface BrokenDriver {
  readonly fault: string;
  /** The names of the checks that fail, in their order. */
  readonly checks: string;
  /** A part of the first one's reason. */
  readonly message: string;
  readonly breakIt: (parts: BrokenParts) => Partial<LoadBalancerDriver>;
  /** Of the fake that it drives. */
  readonly capabilities?: Partial<Capabilities>;
  readonly applyMs?: number;
  /** What the device does, where that is not what it says. */
  readonly serve?: () => Serve;
  /** Found without a client. */
  readonly isBlind?: boolean;
  /** No check passes by it: only the one is run. */
  readonly isEverywhere?: boolean;
}

/** What a broken driver is made of. */
export interface BrokenParts {
  readonly right: LoadBalancerDriver;
  readonly device: FakeDevice;
  readonly clock: Clock;
  readonly settings: DeviceSettings;
  readonly context: DriverContext;
  /** All ids that any driver of this device was ever given: what no driver may have. */
  readonly memory: Set<string>;
  /** Another right one. */
  readonly open: (other: {
    readonly cluster?: string;
    readonly context?: DriverContext;
    readonly device?: FakeDevice;
  }) => LoadBalancerDriver;
}

/** Makes it. Its `ensure` and `remove` fail where the device does, as the right one's. */
export function createBroken(
  { breakIt }: BrokenDriver,
  { device, clock, memory }: Pick<BrokenParts, 'device' | 'clock' | 'memory'>,
): (settings: DeviceSettings, context: DriverContext) => LoadBalancerDriver {
  return (settings, context) => {
    const open: BrokenParts['open'] = (other) =>
      createFakeDriver(other.device ?? device)(
        { ...settings, cluster: other.cluster ?? settings.cluster },
        other.context ?? context,
      );
    const right = open({});
    const driver = spoil(right, breakIt({ right, device, clock, settings, context, memory, open }));
    return {
      ...driver,
      ensure: (wanted, signal) => failWithDevice(() => driver.ensure(wanted, signal)),
      remove: (id, signal) => failWithDevice(() => driver.remove(id, signal)),
    };
  };
}

/** A driver that does some of it wrong. */
export function spoil(right: LoadBalancerDriver, wrong: Partial<LoadBalancerDriver>): LoadBalancerDriver {
  return {
    capabilities: right.capabilities,
    list: right.list.bind(right),
    plan: right.plan.bind(right),
    ensure: right.ensure.bind(right),
    remove: right.remove.bind(right),
    readState: right.readState.bind(right),
    ...wrong,
  };
}

async function failWithDevice(call: () => Promise<Progress>): Promise<Progress> {
  try {
    return await call();
  } catch (error) {
    if (error instanceof DeviceError && error.message !== rejection)
      return { result: 'failed', why: error.message };
    throw error;
  }
}

/** With this message a broken driver rejects all the same. */
export const rejection = 'the driver rejects';

/** A request to the active unit, announced as all are. */
export async function send({ device, context }: BrokenParts, request: FakeRequest, signal: AbortSignal) {
  await context.beforeCall(`write ${request.ask} ${'name' in request ? request.name : ''}`);
  await device.call(device.activeUnit, request, signal);
}

/** The balancer as the device has it; null for not at all. */
export async function findOwned(
  { right }: BrokenParts,
  { id }: Pick<Balancer, 'id'>,
  signal: AbortSignal,
): Promise<Balancer | null> {
  const owned = await right.list(signal);
  return owned.find(({ balancer }) => balancer.id.uid === id.uid)?.balancer ?? null;
}

/** The same balancer, with each listener changed. */
export function mapListeners(balancer: Balancer, change: (listener: Listener) => Listener): Balancer {
  return { ...balancer, listeners: balancer.listeners.map(change) };
}

/** The listener of the same protocol and port. */
export function findPlace(balancer: Balancer | null, { protocol, port }: Listener): Listener | undefined {
  return balancer?.listeners.find((one) => one.protocol === protocol && one.port === port);
}

/** A row has the names of the checks that fail, the fault, and a part of the first reason. */
export function broken(
  row: string,
  breakIt: BrokenDriver['breakIt'],
  options: Partial<BrokenDriver> = {},
): BrokenDriver {
  const [checks = '', fault = '', message = ''] = row.split(' | ');
  return { checks, fault, message, breakIt, ...options };
}

/** Right, but for what `ensure` answers. */
export function answering(
  row: string,
  change: (progress: Progress) => Progress,
  options?: Partial<BrokenDriver>,
): BrokenDriver {
  const breakIt: BrokenDriver['breakIt'] = ({ right }) => ({
    ensure: async (wanted, signal) => change(await right.ensure(wanted, signal)),
  });
  return broken(row, breakIt, options);
}

/** Right, but for what it lists. */
export function listing(row: string, change: (balancer: Balancer) => Balancer): BrokenDriver {
  return broken(row, ({ right }) => ({
    list: async (signal) =>
      (await right.list(signal)).map((one) => ({ ...one, balancer: change(one.balancer) })),
  }));
}

/** Right, but for what its device does. */
export function serving(row: string, serve: () => Serve): BrokenDriver {
  return broken(row, () => ({}), { serve });
}

/** Serves by other members. */
export function mapMembers(change: (member: Member) => Member): Serve {
  return (there) =>
    there.map((balancer) =>
      mapListeners(balancer, (listener) => ({ ...listener, members: listener.members.map(change) })),
    );
}

/** All that ever was there stays. */
export function keepAll(): Serve {
  const all: Balancer[] = [];
  return (there) => {
    all.unshift(...there);
    return all;
  };
}

/** The same device, which is asked otherwise. */
export function replaceCall(device: FakeDevice, call: FakeDevice['call']): FakeDevice {
  return new Proxy(device, {
    get: (target, key) => (key === 'call' ? call : (Reflect.get(target, key, target) as unknown)),
  });
}
