import { parseAddress } from '../../../lib/net.ts';
import type {
  Member,
  Listener,
  BalancerId,
  Balancer,
  LoadBalancerDriver,
  DeviceSettings,
  Progress,
} from '../../../devices/driver.ts';
import { HurriedClock } from './hurried-clock.ts';
import { AlteonSimulator, type AlteonSimulatorOptions } from './alteon-simulator.ts';
import { createAlteon } from '../../../devices/alteon/driver.ts';

export const { signal } = new AbortController();

/** How a call ends, by a matcher of Jest, which benchmarks cannot import. */
const $$typeof = Symbol.for('jest.asymmetricMatcher');
const toMatcher = (part: string) => ({ $$typeof, asymmetricMatch: (text = '') => text.includes(part) });
export const done = { result: 'done', unit: toMatcher('') };
export const failed = (why: string) => ({ result: 'failed', why: toMatcher(why) });

export const toAddress = (text: string) => {
  const address = parseAddress(text);
  if (address === null) throw new Error(`${text} is no address`);
  return address;
};

/** `10.1.0.1:8080=3`, `[fd00::1]:8080`: the weight is 1 where none is given. */
function toMember(text: string): Member {
  const [, ipv6, ipv4, port, weight] = /^(?:\[(.*)\]|([^:]*)):(\d+)(?:=(\d+))?$/.exec(text) ?? [];
  return { address: toAddress(ipv6 ?? ipv4 ?? ''), port: Number(port), weight: Number(weight ?? 1) };
}

/** `tcp 443` with members. */
export function toListener(text: string, members: readonly string[]): Listener {
  const [protocol, port] = text.split(' ');
  return { protocol: protocol === 'udp' ? 'udp' : 'tcp', port: Number(port), members: members.map(toMember) };
}

export const shopId: BalancerId = { cluster: 'prod', namespace: 'shop', name: 'web', uid: '1f2e' };

/** A Service at one address and port, unless told otherwise. */
export function toBalancer(members: readonly string[], changes: Partial<Balancer> = {}): Balancer {
  return {
    id: shopId,
    addresses: [toAddress('192.0.2.1')],
    listeners: [toListener('tcp 443', members)],
    method: 'rr',
    affinityS: null,
    ...changes,
  };
}

/** One of two members, and what a unit serves then. */
export const one = toBalancer(['10.1.0.1:8080', '10.1.0.2:8080=3']);
export const oneServed = [{ listener: 'tcp 192.0.2.1:443', members: ['10.1.0.1:8080=1', '10.1.0.2:8080=3'] }];

/** A simulator, and drivers that have it. */
export class AlteonWorld {
  readonly clock = new HurriedClock();
  readonly device: AlteonSimulator;
  /** Told of each call right before it is sent. */
  beforeCall: (call: string) => void = () => undefined;
  driver: LoadBalancerDriver;

  private constructor(device: AlteonSimulator) {
    this.device = device;
    this.driver = this.makeDriver();
  }

  static async start(options: AlteonSimulatorOptions = {}): Promise<AlteonWorld> {
    return new AlteonWorld(await new AlteonSimulator(options).start());
  }

  /** As after a start of the process: nothing is remembered. */
  makeDriver(changes: Partial<DeviceSettings> = {}): LoadBalancerDriver {
    const { urls, ca, credentials } = this.device;
    return createAlteon(
      { name: 'edge', cluster: 'prod', units: urls, credentials, ca, options: {}, ...changes },
      {
        clock: this.clock,
        beforeCall: (call) => {
          this.beforeCall(call);
        },
      },
    );
  }

  ensure(wanted: Balancer): Promise<Progress> {
    return this.driver.ensure(wanted, signal);
  }

  /** What the act writes, as `PUT /config/…`. */
  async countWrites(act: () => Promise<unknown>): Promise<readonly string[]> {
    const before = this.device.writes.length;
    await act();
    return this.device.writes.slice(before).map(({ method, path }) => `${method} ${path}`);
  }

  stop(): Promise<void> {
    return this.device.stop();
  }
}

const worlds: AlteonWorld[] = [];

/** A world until `stopWorlds`. */
export async function startWorld(options: AlteonSimulatorOptions = {}): Promise<AlteonWorld> {
  const world = await AlteonWorld.start(options);
  worlds.push(world);
  return world;
}

/** To be called after each test. */
export async function stopWorlds(): Promise<void> {
  for (const world of worlds.splice(0)) await world.stop();
}
