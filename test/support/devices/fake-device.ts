import { type Clock, sleep } from '../../../lib/clock.ts';
import { type Capabilities, DeviceError } from '../../../devices/driver.ts';

/** What a fake device can do, and how it behaves. */
export interface FakeDeviceOptions {
  readonly clock: Clock;
  readonly capabilities?: Partial<Capabilities>;
  /** How long a call takes. Default: no time. */
  readonly latencyMs?: number;
  /** How long it applies, where it commits. Default: no time. */
  readonly applyMs?: number;
}

/** What can be asked of a unit. Objects are texts by name. */
export type FakeRequest =
  | { readonly ask: 'role' | 'objects' | 'sessions' }
  | { readonly ask: 'put'; readonly name: string; readonly value: string }
  | { readonly ask: 'delete'; readonly name: string }
  | { readonly ask: 'apply' }
  | { readonly ask: 'save' };

/** What a unit answers. */
export interface FakeAnswer {
  readonly role: 'active' | 'standby';
  readonly isInSync: boolean;
  readonly isApplying: boolean;
  /** Whether what is in force outlives a restart. */
  readonly isSaved: boolean;
  readonly running: ReadonlyMap<string, string>;
  readonly candidate: ReadonlyMap<string, string>;
  /** Member to its open connections: the names of objects. */
  readonly sessions: ReadonlyMap<string, number>;
}

const allCapabilities: Capabilities = {
  ...{ methods: ['rr', 'lc', 'hash'], weights: true, drain: true, sessions: true },
  ...{ affinity: true, ipv6: true, udp: true, atomicCommit: false, pair: true },
  pendingChanges: false,
};

interface Unit {
  running: Map<string, string>;
  candidate: Map<string, string>;
  saved: Map<string, string>;
  applyingUntilMs: number | null;
}

interface OpenSession {
  readonly object: string;
  isOpen: boolean;
}

/**
 * A load balancer in memory: one unit, or a pair of which one is active and copies what it saves to the other. Where it commits atomically,
 * writes change a candidate that counts when it is applied; else each write is in force. It knows nothing of marks: any name may be used.
 */
export class FakeDevice {
  readonly capabilities: Capabilities;
  readonly #clock: Clock;
  readonly #latencyMs: number;
  readonly #applyMs: number;
  readonly #units: Unit[];
  #active = 0;
  #sessions: OpenSession[] = [];
  #isUnresponsive = false;
  #refuses = false;
  #nextFault: 'lost answer' | 'refused' | null = null;
  #held: Promise<void> | null = null;

  constructor({ clock, capabilities = {}, latencyMs = 0, applyMs = 0 }: FakeDeviceOptions) {
    this.#clock = clock;
    this.capabilities = { ...allCapabilities, ...capabilities };
    this.#latencyMs = latencyMs;
    this.#applyMs = applyMs;
    this.#units = Array.from({ length: this.capabilities.pair ? 2 : 1 }, createUnit);
  }

  /** As its settings name them. */
  get unitNames(): readonly string[] {
    return this.#units.map((_, at) => `unit-${at + 1}`);
  }

  get activeUnit(): string {
    return this.unitNames[this.#active] ?? '';
  }

  /** One request to a unit. Rejects with a DeviceError, or with the signal's reason. */
  async call(unitName: string, request: FakeRequest, signal: AbortSignal): Promise<FakeAnswer> {
    signal.throwIfAborted();
    const fault = this.#nextFault;
    this.#nextFault = null;
    if (this.#latencyMs > 0) await sleep(this.#clock, this.#latencyMs);
    if (this.#held !== null) await waitFor(this.#held, signal);
    signal.throwIfAborted();
    if (this.#isUnresponsive) throw new DeviceError('unreachable', `${unitName} does not answer`);
    const at = this.unitNames.indexOf(unitName);
    const unit = this.#units[at];
    if (unit === undefined) throw new DeviceError('unreachable', `there is no ${unitName}`);
    this.#finishApply(unit);
    if (isWrite(request)) this.#write(unit, at, request);
    if (fault === 'lost answer') throw new DeviceError('unreachable', `${unitName} closed the connection`);
    return this.#answer(unit, at);
  }

  /** The other unit becomes active. What was not applied stays where it is. */
  switchRole(): void {
    this.#active = (this.#active + 1) % this.#units.length;
  }

  /** The active unit has what it saved, and nothing else. */
  restart(): void {
    const unit = this.#activeUnit;
    unit.running = new Map(unit.saved);
    unit.candidate = new Map(unit.saved);
    unit.applyingUntilMs = null;
  }

  /** All units lose everything. */
  forget(): void {
    this.#units.splice(0, this.#units.length, ...this.#units.map(createUnit));
    this.#sessions = [];
  }

  setSilent(isUnresponsive: boolean): void {
    this.#isUnresponsive = isUnresponsive;
  }

  setRefusing(isRefusing: boolean): void {
    this.#refuses = isRefusing;
  }

  /** Does what the next call says, and then closes its connection. */
  loseNextAnswer(): void {
    this.#nextFault = 'lost answer';
  }

  /** Answers no call until what it returns is called. */
  hold(): () => void {
    let release: () => void = () => undefined;
    this.#held = new Promise((resolve) => {
      release = resolve;
    });
    return () => {
      this.#held = null;
      release();
    };
  }

  /** All objects of all units, in force or not. */
  listObjects(): string[] {
    return this.#units
      .flatMap((unit, at) => {
        this.#finishApply(unit);
        return [
          ...list(unit.running, `unit-${at + 1} runs`),
          ...list(unit.candidate, `unit-${at + 1} will run`),
        ];
      })
      .sort();
  }

  /** What another user writes: in force on all units, without a role or a fault. */
  putForeign(name: string, value: string): void {
    for (const { running, candidate, saved } of this.#units)
      for (const objects of [running, candidate, saved]) objects.set(name, value);
  }

  /** What another user reads; null for nothing. */
  read(name: string): string | null {
    return this.#activeUnit.running.get(name) ?? null;
  }

  deleteForeign(name: string): void {
    for (const { running, candidate, saved } of this.#units)
      for (const objects of [running, candidate, saved]) objects.delete(name);
  }

  /** What another user changes on the active unit, and does not apply; null deletes it. */
  changePending(name: string, value: string | null): void {
    if (value === null) this.#activeUnit.candidate.delete(name);
    else this.#activeUnit.candidate.set(name, value);
  }

  /** What that user reads of it; null for nothing. */
  readPending(name: string): string | null {
    return this.#activeUnit.candidate.get(name) ?? null;
  }

  /** A client's connection to the member that is an object. It ends with the object, or where the driver says so. */
  openSession(object: string): { readonly isOpen: () => boolean; readonly close: () => void } {
    const session: OpenSession = { object, isOpen: true };
    this.#sessions.push(session);
    return {
      isOpen: () => session.isOpen,
      close: () => {
        session.isOpen = false;
      },
    };
  }

  /** The names of the objects in force. */
  listRunning(): string[] {
    return [...this.running.keys()].sort();
  }

  /** The objects in force. */
  get running(): ReadonlyMap<string, string> {
    this.#finishApply(this.#activeUnit);
    return this.#activeUnit.running;
  }

  get #activeUnit(): Unit {
    return this.#units[this.#active] ?? createUnit();
  }

  #write(unit: Unit, at: number, request: FakeWrite): void {
    if (this.#refuses) throw new DeviceError('refused', 'the table is full');
    if (at !== this.#active) throw new DeviceError('role-changed', `unit-${at + 1} is not active`);
    if (request.ask === 'save') {
      this.#save(unit);
    } else if (request.ask === 'apply') {
      unit.applyingUntilMs = this.#clock.now() + this.#applyMs;
      this.#finishApply(unit);
    } else {
      const stores = this.capabilities.atomicCommit ? [unit.candidate] : [unit.candidate, unit.running];
      for (const objects of stores) change(objects, request);
      this.#endSessions();
    }
  }

  #finishApply(unit: Unit): void {
    if (unit.applyingUntilMs === null || unit.applyingUntilMs > this.#clock.now()) return;
    unit.applyingUntilMs = null;
    unit.running = new Map(unit.candidate);
    this.#endSessions();
  }

  #save(unit: Unit): void {
    unit.saved = new Map(unit.running);
    for (const other of this.#units.filter((one) => one !== unit)) {
      other.running = new Map(unit.running);
      other.candidate = new Map(unit.candidate);
      other.saved = new Map(unit.running);
    }
  }

  #endSessions(): void {
    for (const session of this.#sessions)
      if (!this.#activeUnit.running.has(session.object)) session.isOpen = false;
  }

  #answer(unit: Unit, at: number): FakeAnswer {
    const counts = new Map<string, number>();
    for (const { object, isOpen } of this.#sessions)
      if (isOpen) counts.set(object, (counts.get(object) ?? 0) + 1);
    return {
      role: at === this.#active ? 'active' : 'standby',
      isInSync: isSame(unit.running, this.#activeUnit.running),
      isApplying: unit.applyingUntilMs !== null,
      isSaved: isSame(unit.running, unit.saved),
      running: new Map(unit.running),
      candidate: new Map(unit.candidate),
      sessions: counts,
    };
  }
}

type FakeWrite = Extract<FakeRequest, { readonly ask: 'put' | 'delete' | 'apply' | 'save' }>;

function isWrite(request: FakeRequest): request is FakeWrite {
  return ['put', 'delete', 'apply', 'save'].includes(request.ask);
}

function change(objects: Map<string, string>, request: Extract<FakeWrite, { readonly name: string }>): void {
  if (request.ask === 'put') objects.set(request.name, request.value);
  else objects.delete(request.name);
}

function createUnit(): Unit {
  return { running: new Map(), candidate: new Map(), saved: new Map(), applyingUntilMs: null };
}

function list(objects: ReadonlyMap<string, string>, where: string): string[] {
  return [...objects].map(([name, value]) => `${where} ${name}: ${value}`);
}

function isSame(one: ReadonlyMap<string, string>, other: ReadonlyMap<string, string>): boolean {
  return list(one, '').sort().join('\n') === list(other, '').sort().join('\n');
}

async function waitFor(held: Promise<void>, signal: AbortSignal): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    signal.addEventListener('abort', () => {
      reject(signal.reason as Error);
    });
    void held.then(resolve);
  });
}
