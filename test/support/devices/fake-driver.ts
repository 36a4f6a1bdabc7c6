import type { FakeDevice, FakeAnswer, FakeRequest } from './fake-device.ts';
import {
  type CreateDriver,
  type BalancerId,
  type Listener,
  type Member,
  formatMark,
  type LoadBalancerDriver,
  type DriverContext,
  type Owned,
  type Balancer,
  type Change,
  type Progress,
  type DeviceState,
  type UnitState,
  DeviceError,
  parseMark,
  formatMember,
} from '../../../devices/driver.ts';
import { parseAddress } from '../../../lib/net.ts';

/** Makes drivers of a device in memory. */
export function createFakeDriver(device: FakeDevice): CreateDriver {
  return ({ cluster }, context) => new FakeDriver(device, cluster, context);
}

/** The object that a member of a listener is. */
export function nameMemberObject(id: BalancerId, listener: Listener, member: Member): string {
  return `${nameListenerObject(id, listener)}_${member.address.text}-${member.port}`;
}

function nameListenerObject(id: BalancerId, { protocol, port }: Listener): string {
  return `${formatMark(id)}_${protocol}-${port}`;
}

type Objects = ReadonlyMap<string, string>;

/** The active unit, and what it and the others said. */
interface Pinned {
  readonly unit: string;
  readonly answer: FakeAnswer;
  readonly isInSync: boolean;
}

class FakeDriver implements LoadBalancerDriver {
  readonly #device: FakeDevice;
  readonly #cluster: string;
  readonly #context: DriverContext;

  constructor(device: FakeDevice, cluster: string, context: DriverContext) {
    this.#device = device;
    this.#cluster = cluster;
    this.#context = context;
  }

  get capabilities(): LoadBalancerDriver['capabilities'] {
    return this.#device.capabilities;
  }

  async list(signal: AbortSignal): Promise<readonly Owned[]> {
    const { unit } = await this.#pin(signal);
    const { running, sessions } = await this.#ask(unit, { ask: 'sessions' }, signal);
    return toOwned(running, this.#cluster, this.capabilities.sessions ? sessions : null);
  }

  async plan(wanted: Balancer, signal: AbortSignal): Promise<readonly Change[]> {
    const { answer } = await this.#pin(signal);
    const objects = this.#toObjects(wanted);
    return listSteps(answer, { id: wanted.id, objects }).map(({ change }) => change);
  }

  async ensure(wanted: Balancer, signal: AbortSignal): Promise<Progress> {
    return await this.#report(() => this.#change(wanted.id, this.#toObjects(wanted), signal));
  }

  async remove(id: BalancerId, signal: AbortSignal): Promise<Progress> {
    return await this.#report(() => this.#change(id, new Map(), signal));
  }

  async readState(signal: AbortSignal): Promise<DeviceState> {
    const units: UnitState[] = [];
    let foreignChanges: string[] = [];
    for (const unit of this.#device.unitNames) {
      const answer = await this.#ask(unit, { ask: 'role' }, signal).catch(forgiveSilence);
      units.push({
        unit,
        role: answer?.role ?? 'unresponsive',
        isInSync: answer?.isInSync ?? null,
        why: answer === null ? 'it does not answer' : '',
      });
      if (answer?.role === 'active') foreignChanges = this.#listForeign(answer);
    }
    return { units, foreignChanges };
  }

  async #report(call: () => Promise<Progress>): Promise<Progress> {
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof DeviceError)) throw error;
      return { result: error.kind === 'refused' ? 'refused' : 'failed', why: error.message };
    }
  }

  /** Adds, changes, drains, deletes; then applies and saves on the unit that was active from the beginning to the end. */
  async #change(id: BalancerId, objects: Objects, signal: AbortSignal): Promise<Progress> {
    const pinned = await this.#pin(signal);
    const { unit, answer } = pinned;
    if (answer.isApplying) return waiting;
    if (this.#listForeign(answer).length > 0)
      throw new DeviceError('foreign-changes', 'changes of another user wait to be applied');
    const steps = listSteps(answer, { id, objects });
    for (const { request } of steps) await this.#ask(unit, request, signal);
    if (steps.length === 0 && answer.isSaved && pinned.isInSync) return { result: 'done' };
    const isApplied = steps.length === 0 || (await this.#apply(unit, signal));
    if (!isApplied) return waiting;
    await this.#expectSame(unit, signal);
    await this.#ask(unit, { ask: 'save' }, signal);
    const last = await this.#expectSame(unit, signal);
    // A unit that restarted meanwhile has lost it.
    return listSteps(last, { id, objects }).length === 0 ? { result: 'done' } : waiting;
  }

  /** Whether all is in force now. */
  async #apply(unit: string, signal: AbortSignal): Promise<boolean> {
    if (!this.capabilities.atomicCommit) return true;
    await this.#expectSame(unit, signal);
    const { isApplying } = await this.#ask(unit, { ask: 'apply' }, signal);
    return !isApplying;
  }

  async #expectSame(unit: string, signal: AbortSignal): Promise<FakeAnswer> {
    const pinned = await this.#pin(signal);
    if (pinned.unit !== unit) throw new DeviceError('role-changed', `${pinned.unit} is active now`);
    return pinned.answer;
  }

  async #pin(signal: AbortSignal): Promise<Pinned> {
    const answers = new Map<string, FakeAnswer>();
    for (const unit of this.#device.unitNames) {
      const answer = await this.#ask(unit, { ask: 'objects' }, signal).catch(forgiveSilence);
      if (answer !== null) answers.set(unit, answer);
    }
    const active = [...answers].filter(([, { role }]) => role === 'active');
    const [found] = active;
    if (found === undefined || active.length > 1)
      throw new DeviceError(answers.size === 0 ? 'unreachable' : 'no-active-unit', 'no unit is active');
    const [unit, answer] = found;
    return { unit, answer, isInSync: [...answers.values()].every(({ isInSync }) => isInSync) };
  }

  async #ask(unit: string, request: FakeRequest, signal: AbortSignal): Promise<FakeAnswer> {
    const verb = ['role', 'objects', 'sessions'].includes(request.ask) ? 'read' : 'write';
    await this.#context.beforeCall(`${verb} ${request.ask} ${'name' in request ? request.name : unit}`);
    return await this.#device.call(unit, request, signal);
  }

  #listForeign({ running, candidate }: FakeAnswer): string[] {
    const names = new Set([...running.keys(), ...candidate.keys()]);
    return [...names].filter(
      (name) => running.get(name) !== candidate.get(name) && parseMark(name, this.#cluster) === null,
    );
  }

  #toObjects({ id, addresses, listeners, method, affinityS }: Balancer): Objects {
    const limit = (weight: number) => (this.capabilities.weights ? weight : Math.min(weight, 1));
    const at = addresses.map(({ text }) => text).sort();
    return new Map(
      listeners.flatMap((listener) => [
        ...listener.members.map((member): [string, string] => [
          nameMemberObject(id, listener, member),
          String(limit(member.weight)),
        ]),
        [nameListenerObject(id, listener), JSON.stringify({ method, affinityS, at })] as const,
      ]),
    );
  }
}

const waiting: Progress = { result: 'running', retryInMs: 500, why: 'the device is not there yet' };

function forgiveSilence(error: unknown): null {
  if (error instanceof DeviceError && error.kind === 'unreachable') return null;
  throw error;
}

interface Step {
  readonly change: Change;
  readonly request: FakeRequest;
}

/** In the order in which they are safe: what is new, what changes, weights of 0, what goes. New members come before their listener. */
function listSteps(
  { running, candidate }: FakeAnswer,
  { id, objects }: { readonly id: BalancerId; readonly objects: Objects },
): readonly Step[] {
  const prefix = `${formatMark(id)}_`;
  const isOwn = (name: string) => name.startsWith(prefix);
  const names = [...new Set([...objects.keys(), ...[...running.keys(), ...candidate.keys()].filter(isOwn)])];
  const steps = names.flatMap((name): { readonly step: Step; readonly rank: number }[] => {
    const before = running.get(name) ?? null;
    const after = objects.get(name) ?? null;
    if (before === after && (candidate.get(name) ?? null) === after) return [];
    const request: FakeRequest =
      after === null ? { ask: 'delete', name } : { ask: 'put', name, value: after };
    const rank = rankStep({ object: name, before, after });
    return [{ step: { change: { object: name, before, after }, request }, rank }];
  });
  return steps.sort((one, other) => one.rank - other.rank).map(({ step }) => step);
}

/** A listener goes before its members: it never serves without any. */
function rankStep({ object, before, after }: Change): number {
  if (after === null) return object.split('_').length > listenerParts ? 4 : 3;
  if (after === '0') return 2;
  return before === null ? 0 : 1;
}

/** The mark has five, and the protocol with its port is one more. */
const listenerParts = 6;

interface ReadPlace {
  /** Its settings as JSON; null where the object is not there. */
  listener: string | null;
  readonly members: Member[];
}

interface Read {
  readonly id: BalancerId;
  readonly places: Map<string, ReadPlace>;
  readonly sessions: Map<string, number>;
}

/** What the cluster has in force. Without counts, `sessions` is null. */
export function toOwned(
  running: Objects,
  cluster: string,
  sessions: ReadonlyMap<string, number> | null,
): Owned[] {
  const markToRead = new Map<string, Read>();
  for (const [name, value] of running) {
    const parsed = parseMark(name, cluster);
    if (parsed === null) continue;
    const mark = formatMark(parsed.id);
    const read = markToRead.get(mark) ?? { id: parsed.id, places: new Map(), sessions: new Map() };
    markToRead.set(mark, read);
    readObject(read, parsed.rest, { value, sessions: sessions?.get(name) ?? 0 });
  }
  return [...markToRead.values()].map((read) => ({
    balancer: toBalancer(read),
    memberToSessions: sessions === null ? null : read.sessions,
  }));
}

function readObject(
  { places, sessions: counts }: Read,
  [place = '', target]: readonly string[],
  { value, sessions }: { readonly value: string; readonly sessions: number },
): void {
  const at: ReadPlace = places.get(place) ?? { listener: null, members: [] };
  places.set(place, at);
  if (target === undefined) {
    at.listener = value;
    return;
  }
  const member = toMember(target, value);
  at.members.push(member);
  const key = formatMember(member);
  counts.set(key, (counts.get(key) ?? 0) + sessions);
}

function toMember(target: string, weight: string): Member {
  const [, address = '', port] = /^(.*)-(\d+)$/.exec(target) ?? [];
  return { address: toAddress(address), port: Number(port), weight: Number(weight) };
}

function toAddress(text: string): Member['address'] {
  const address = parseAddress(text);
  if (address === null) throw new DeviceError('nonsense', `${text} is not an address`);
  return address;
}

/** Members without their listener serve nothing yet. */
function toBalancer({ id, places }: Read): Balancer {
  const serving = [...places].flatMap(([place, { listener, members }]) => {
    if (listener === null) return [];
    const [protocol, port] = place.split('-');
    const settings = JSON.parse(listener) as {
      readonly method: Balancer['method'];
      readonly affinityS: number | null;
      readonly at: readonly string[];
    };
    const read: Listener = { protocol: protocol === 'udp' ? 'udp' : 'tcp', port: Number(port), members };
    return [{ listener: read, settings }];
  });
  const [first] = serving;
  return {
    id,
    addresses: [...new Set(serving.flatMap(({ settings }) => settings.at))].map(toAddress),
    listeners: serving.map(({ listener }) => listener),
    method: first?.settings.method ?? 'rr',
    affinityS: first?.settings.affinityS ?? null,
  };
}
