/** A device of one unit in memory: named objects, one write a call, and faults to switch on. */
import {
  type Capabilities,
  type BalancerId,
  type DeviceErrorKind,
  type CreateDriver,
  type Balancer,
  isOtherCluster,
  parseMark,
  type Listener,
  type LoadBalancerDriver,
  type DeviceSettings,
  type DriverContext,
  type Owned,
  type Progress,
  formatMark,
  DeviceError,
} from '../../../devices/driver.ts';
import { sleep } from '../../../lib/clock.ts';
import type { Address } from '../../../lib/net.ts';
import { whole } from './device-objects.ts';

export type CallEnd = 'done' | 'never sent' | 'answer lost';

/** The device; drivers of any number of processes may speak to it. */
export class PlainDevice {
  readonly objects = new Map<string, string>();
  readonly calls: string[] = [];
  latencyMs = 5;
  foreignChanges: readonly string[] = [];
  isInSync: boolean | null = null;
  active = 0;
  /** It says so only when `confirm` does. */
  confirms = false;
  refuses: ((id: BalancerId) => string | null) | null = null;
  chooseEnd: () => CallEnd = () => 'done';
  /** Open connections of members, by `ADDRESS:PORT`; null: they are not counted. */
  sessions: ReadonlyMap<string, number> | null = null;
  /** How often an `ensure` is running before it is done. */
  runs = 0;
  /** Credentials that it takes; null for any. */
  password: string | null = null;
  /** How it takes no others. */
  refusal: DeviceErrorKind = 'unauthorized';
  onWrite: (name: string, value: string | null) => void = () => undefined;

  readonly createDriver: CreateDriver = (settings, context) => new PlainDriver(this, settings, context);

  /** Of all Services of the cluster `c`: `ADDRESS WEIGHT`. */
  listMembers(): string[] {
    const members = this.list('c').flatMap(({ listeners }) => listeners.flatMap((one) => one.members));
    return members.map(({ address, weight }) => `${address.text} ${weight}`);
  }

  /** All of a cluster's name, as it serves them. */
  list(cluster: string): (Balancer & Written)[] {
    return [...this.objects].flatMap(([name, value]) => {
      const found = parseMark(name, cluster);
      if (found === null || found.rest.length > 0) return [];
      const listeners = [...this.objects].flatMap(([other, text]) =>
        other.startsWith(`${name}_`) ? [JSON.parse(text) as Listener] : [],
      );
      const own = JSON.parse(value) as Written;
      return [{ ...own, id: found.id, listeners: listeners.sort((one, other) => one.port - other.port) }];
    });
  }

  write(name: string, value: string | null): void {
    this.onWrite(name, value);
    if (value === null) this.objects.delete(name);
    else this.objects.set(name, value);
  }
}

/** The object of a mark. */
type Written = Pick<Balancer, 'addresses' | 'method' | 'affinityS'> & Pick<DeviceSettings, 'identity'>;

const othersThere: Progress = { result: 'failed', why: 'another cluster has it' };

class PlainDriver implements LoadBalancerDriver {
  readonly #device: PlainDevice;
  readonly #settings: DeviceSettings;
  readonly #context: DriverContext;

  constructor(device: PlainDevice, settings: DeviceSettings, context: DriverContext) {
    [this.#device, this.#settings, this.#context] = [device, settings, context];
  }

  get capabilities(): Capabilities {
    return { ...whole, sessions: this.#device.sessions !== null };
  }

  async list(): Promise<readonly Owned[]> {
    await this.#call('list');
    return this.#device.list(this.#settings.cluster).map(({ identity, ...balancer }) => {
      const otherCluster = isOtherCluster(identity, this.#settings.identity) ? identity : undefined;
      return { balancer, otherCluster, memberToSessions: this.#device.sessions };
    });
  }

  plan(): Promise<never> {
    throw new Error('no controller plans');
  }

  async readState(): ReturnType<LoadBalancerDriver['readState']> {
    await this.#call('state');
    const { isInSync, active } = this.#device;
    const units = this.#settings.units.map((unit, at) => {
      return { unit, role: at === active ? ('active' as const) : ('standby' as const), isInSync, why: '' };
    });
    return { units, foreignChanges: this.#device.foreignChanges };
  }

  async ensure(wanted: Balancer): Promise<Progress> {
    const why = this.#device.refuses?.(wanted.id) ?? null;
    if (why !== null) return { result: 'refused', why };
    const mark = formatMark(wanted.id);
    const { addresses, method, affinityS } = wanted;
    const { identity } = this.#settings;
    const objects = new Map([
      [mark, JSON.stringify({ addresses, method, affinityS, identity })],
      ...wanted.listeners.map(
        (listener) => [`${mark}_${listener.protocol}_${listener.port}`, JSON.stringify(listener)] as const,
      ),
    ]);
    return await this.#change(mark, objects);
  }

  async remove(id: BalancerId): Promise<Progress> {
    return await this.#change(formatMark(id), new Map());
  }

  get confirm(): LoadBalancerDriver['confirm'] {
    if (!this.#device.confirms) return undefined;
    return async (all) => {
      await this.#call('confirm');
      this.#device.isInSync = all.every((id) => this.#device.objects.has(formatMark(id))) || null;
      return this.#device.isInSync === true
        ? { result: 'done' }
        : { result: 'failed', why: 'it has lost some' };
    };
  }

  /** The parts go before the whole, so that `list` finds what is half gone. */
  async #change(mark: string, wanted: ReadonlyMap<string, string>): Promise<Progress> {
    const { objects } = this.#device;
    try {
      await this.#call('read');
      const { identity } = JSON.parse(objects.get(mark) ?? '{}') as Partial<Written>;
      if (isOtherCluster(identity, this.#settings.identity))
        return wanted.size === 0 ? { result: 'done' } : othersThere;
      for (const [name, value] of wanted) if (objects.get(name) !== value) await this.#put(name, value);
      const surplus = [...objects.keys()].filter(
        (name) => (name === mark || name.startsWith(`${mark}_`)) && !wanted.has(name),
      );
      for (const name of surplus.sort().reverse()) await this.#put(name, null);
    } catch (error) {
      if (error instanceof DeviceError) return { result: 'failed', why: error.message, kind: error.kind };
      throw error;
    }
    const { units } = this.#settings;
    if (this.#device.runs === 0) return { result: 'done', unit: units[this.#device.active] };
    this.#device.runs -= 1;
    return { result: 'running', retryInMs: 500, why: 'it is applied' };
  }

  async #put(name: string, value: string | null): Promise<void> {
    await this.#call(value === null ? `delete ${name}` : `put ${name}`, () => {
      this.#device.write(name, value);
    });
  }

  async #call(what: string, act: () => void = () => undefined): Promise<void> {
    const { clock, beforeCall } = this.#context;
    await beforeCall(what);
    const device = this.#device;
    device.calls.push(what);
    if (device.password !== null && this.#settings.credentials?.password !== device.password)
      throw new DeviceError(device.refusal, 'the unit does not take the credentials');
    const end = device.chooseEnd();
    if (end === 'never sent') throw new DeviceError('unreachable', 'no unit answers');
    act();
    await sleep(clock, device.latencyMs);
    if (end === 'answer lost') throw new DeviceError('unreachable', 'no unit answers');
  }
}

/** In canonical text. */
export function listTexts(addresses: readonly Address[]): string[] {
  return addresses.map(({ text }) => text);
}
