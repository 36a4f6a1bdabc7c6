import type { Clock } from '../../lib/clock.ts';
import {
  type CreateDriver,
  type LoadBalancerDriver,
  type Capabilities,
  type DriverContext,
  type Owned,
  sumSessions,
  type Balancer,
  type Change,
  DeviceError,
  ignoreDeviceError,
  type Progress,
  type BalancerId,
  type DeviceState,
  formatMark,
  parseMark,
  describeBalancer,
} from '../driver.ts';
import { readSettings, type HaproxyAddress, type HaproxySettings, affinityTimesS } from './settings.ts';
import {
  readBalancers,
  chooseSlots,
  readMembers,
  type UnitContent,
  askContent,
  readContent,
  isKept,
  planKept,
} from './content.ts';
import { type PairUnit, type UnitRole, DevicePair, maxStarts } from '../pair.ts';
import { runCommands, type Step, type Plan, planSteps } from './steps.ts';
import { toPrintableLine } from '../../lib/text.ts';
import { exchangeText } from '../../lib/http/client.ts';

/** After a call that waited so long, changes do not call the unit for a while, as each would wait: as long as the other is active. Reads do. */
const slowMs = 1000;
const leftOutMs = 10_000;

/** A unit answers within milliseconds; a host that is nearly dead gets this long, and a standby less: changes of the active one wait for it. */
const limitMs = 10_000;
const standbyLimitMs = 2000;

/** How the units answered before. It saves waiting, and nothing depends on it. */
class UnitMemory {
  readonly #clock: Clock;
  readonly #unitToUntilMs = new Map<string, number>();
  /** The one that was active last; null where that is not known. */
  active: string | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  isLeftOut(unit: string): boolean {
    return this.#clock.now() < (this.#unitToUntilMs.get(unit) ?? -Infinity);
  }

  getLimitMs(unit: string): number {
    return this.active === null || this.active === unit ? limitMs : standbyLimitMs;
  }

  /** Does what calls the unit, and keeps in mind whether the unit answered in time. */
  async watch<Result>(unit: string, call: () => Promise<Result>): Promise<Result> {
    const startMs = this.#clock.now();
    try {
      const result = await call();
      this.#unitToUntilMs.delete(unit);
      return result;
    } catch (error) {
      const nowMs = this.#clock.now();
      if (error instanceof DeviceError && nowMs - startMs >= slowMs)
        this.#unitToUntilMs.set(unit, nowMs + leftOutMs);
      throw error;
    }
  }
}

/**
 * HAProxy, by its runtime interface.
 *
 * Goal: each Service is on both units of a pair as it is wanted, without a reload.
 * Tension: HAProxy cannot get a frontend at run time, forgets at its end all that it got there, and knows of no other unit.
 * Compromise: the configuration has slots, which `vipnat device configuration` makes. A map says which address and port has which slot, and another
 * one whose each slot is. Both units are written, each by one call, which reads back what it wrote. A unit that began empty is filled from the
 * other one. What a unit saves before it starts again is in `configuration.ts`. A unit that lets a call wait is left out of changes for a while.
 */

/** Makes a driver for one or two units; docs/device-haproxy.md has its options. */
export const createHaproxy: CreateDriver = createHaproxyBy(exchangeText);

/** Likewise, with what asks a unit. */
export function createHaproxyBy(exchange: typeof exchangeText): CreateDriver {
  return (settings, context) => new HaproxyDriver({ settings: readSettings(settings), context, exchange });
}

/** A unit that saves what it has starts again within a second. */
const retryInMs = 1000;

/** Beyond, all servers are read back in one call. */
const maxAskedSlots = 16;

class HaproxyDriver implements LoadBalancerDriver {
  readonly capabilities: Capabilities;
  readonly #parts: Omit<SnapshotOptions, 'signal' | 'what'>;

  constructor(parts: Pick<SnapshotOptions, 'settings' | 'context' | 'exchange'>) {
    const { settings, context } = parts;
    this.#parts = { ...parts, memory: new UnitMemory(context.clock) };
    const pair = settings.units.length === 2;
    this.capabilities = {
      ...{ methods: ['rr', 'lc', 'hash'], weights: true, drain: true, sessions: true, affinity: true },
      ...{ ipv6: true, udp: false, atomicCommit: false, pair, pendingChanges: false, identity: true },
    };
  }

  async list(signal: AbortSignal): Promise<readonly Owned[]> {
    const { content, placeToSessions } = await this.#snapshot(signal, 'with sessions').findActive();
    const { cluster } = this.#parts.settings;
    return [...readBalancers(content, cluster)].map(([mark, balancer]) => {
      const [otherCluster] = parseMark(mark, cluster)?.rest ?? [];
      const counts = [...chooseSlots(content, mark).values()].flatMap((slot) =>
        readMembers(content.slotToServers.get(slot) ?? []).map(
          ({ member, server }) => [member, placeToSessions.get(`${slot}/${server.name}`) ?? 0] as const,
        ),
      );
      return { balancer, otherCluster, memberToSessions: sumSessions(counts) };
    });
  }

  async plan(wanted: Balancer, signal: AbortSignal): Promise<readonly Change[]> {
    const why = findRefusal(wanted);
    if (why !== null) throw new DeviceError('refused', why);
    const snapshot = this.#snapshot(signal);
    const active = await snapshot.findActive();
    const aim = snapshot.aim(active, wanted.id, wanted);
    const problem = snapshot.findProblem(aim);
    if (problem !== null) throw problem;
    return snapshot.answering.flatMap((unit) => {
      const prefix = unit === active ? '' : `${unit.unit}: `;
      const { steps } = snapshot.planUnit(unit, aim);
      return steps.map(({ change }) => ({ ...change, object: `${prefix}${change.object}` }));
    });
  }

  async ensure(wanted: Balancer, signal: AbortSignal): Promise<Progress> {
    const why = findRefusal(wanted);
    if (why !== null) return { result: 'refused', why };
    return await this.#change(signal, (snapshot, active) => snapshot.aim(active, wanted.id, wanted));
  }

  async remove(id: BalancerId, signal: AbortSignal): Promise<Progress> {
    return await this.#change(signal, (snapshot, active) => snapshot.aim(active, id, null));
  }

  async confirm(all: readonly BalancerId[], signal: AbortSignal): Promise<Progress> {
    return await this.#change(signal, (snapshot, active) => snapshot.aimAtAll(active, all));
  }

  async readState(signal: AbortSignal): Promise<DeviceState> {
    const snapshot = this.#snapshot(signal);
    const units = await snapshot.pair.readUnits();
    const active = snapshot.units[units.findIndex(({ role }) => role === 'active')];
    return {
      units: units.map((state, at) => {
        const unit = snapshot.units[at];
        if (active === undefined || unit?.hasAnswered !== true) return state;
        const problem = unit === active ? '' : snapshot.compare(unit, active);
        if (problem === '' && !isKept(unit.content))
          return { ...state, isInSync: null, why: 'since it started, not all Services have been compared' };
        return { ...state, isInSync: problem === '', why: state.why === '' ? problem : state.why };
      }),
      foreignChanges: [],
    };
  }

  #snapshot(signal: AbortSignal, what: Asked = 'content'): Snapshot {
    return new Snapshot({ ...this.#parts, signal, what });
  }

  async #readForChange(signal: AbortSignal): Promise<readonly [Snapshot, SnapshotUnit]> {
    const { memory } = this.#parts;
    if (memory.active !== null) {
      const snapshot = this.#snapshot(signal, 'content of answering units');
      const active = await snapshot.findActive().catch(ignoreDeviceError);
      if (active !== null) return [snapshot, active];
      // Another one may be active, and slow.
      memory.active = null;
    }
    const snapshot = this.#snapshot(signal);
    return [snapshot, await snapshot.findActive()];
  }

  async #change(
    signal: AbortSignal,
    toAim: (snapshot: Snapshot, active: SnapshotUnit) => Aim,
  ): Promise<Progress> {
    try {
      for (let start = 1; start <= maxStarts; start += 1) {
        const [snapshot, active] = await this.#readForChange(signal);
        const progress = await snapshot.write(toAim(snapshot, active));
        if (active.role === 'active') return progress;
      }
      return { result: 'failed', why: `the units changed their roles ${maxStarts} times in one change` };
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof DeviceError)) throw error;
      return toProgress(error);
    }
  }
}

function toProgress({ kind, message: why }: DeviceError): Progress {
  return kind === 'refused' ? { result: kind, why } : { result: 'failed', why, kind };
}

function findRefusal({ listeners, affinityS }: Balancer): string | null {
  const udp = listeners.find(({ protocol }) => protocol === 'udp');
  if (udp !== undefined) return `HAProxy cannot have it: it listens to UDP at port ${udp.port}`;
  const longestS = Math.max(...affinityTimesS);
  if (affinityS === null || affinityS <= longestS) return null;
  return `HAProxy cannot have it: its affinity is longer than ${longestS} s`;
}

/** What a read asks for. `content of answering units`: of those that answered when they were asked last. */
type Asked = 'content' | 'with sessions' | 'content of answering units';

interface SnapshotOptions {
  readonly settings: HaproxySettings;
  readonly context: DriverContext;
  readonly exchange: typeof exchangeText;
  readonly what: Asked;
  readonly memory: UnitMemory;
  readonly signal: AbortSignal;
}

/** A unit, as it was when it was last asked in one call of the driver. */
class SnapshotUnit implements PairUnit {
  readonly unit: string;
  readonly #address: HaproxyAddress;
  readonly #snapshot: SnapshotOptions;
  #found: UnitContent | null = null;
  placeToSessions: ReadonlyMap<string, number> = new Map();

  constructor(address: HaproxyAddress, snapshot: SnapshotOptions) {
    this.unit = address.unit;
    this.#address = address;
    this.#snapshot = snapshot;
  }

  get hasAnswered(): boolean {
    return this.#found !== null;
  }

  get content(): UnitContent {
    if (this.#found === null) throw new TypeError(`${this.unit} was not asked, or has not answered`);
    return this.#found;
  }

  get role(): UnitRole['role'] {
    if (this.#snapshot.settings.units.length === 1) return 'active';
    const { role } = this.content;
    return role === 'active' || role === 'standby' ? role : 'unknown';
  }

  /** Of the cluster, by their marks. */
  get balancers(): ReadonlyMap<string, Balancer> {
    const all = readBalancers(this.content, this.#snapshot.settings.cluster);
    return new Map([...all].filter(([mark, { id }]) => mark === formatMark(id)));
  }

  /** Without members that drain: open connections are at the unit that took them. */
  describe(): ReadonlySet<string> {
    const isServing = (line: string) => !line.endsWith(' weight 0');
    const all = [...this.balancers.values()];
    return new Set(all.map((one) => describeBalancer(one).filter(isServing).join('\n')));
  }

  async readRole(): Promise<UnitRole> {
    const asked = askContent();
    const { what, memory } = this.#snapshot;
    if (what === 'content of answering units' && memory.isLeftOut(this.unit))
      throw new DeviceError('unreachable', `${this.unit} did not answer a moment ago`);
    const asksSessions = what === 'with sessions';
    const commands = [...asked, ...(asksSessions ? ['show stat -1 4 -1'] : [])];
    const answers = await this.#run('read', commands);
    this.#found = readContent(this.unit, answers.slice(0, asked.length), this.#snapshot.settings);
    if (asksSessions) this.placeToSessions = readSessions(answers.at(-1) ?? '');
    const { role } = this;
    return { role, why: role === 'unknown' ? 'keepalived of its host has not reported a role' : '' };
  }

  /** Answers with what it says where it does not do all of it. */
  async write(steps: readonly Step[]): Promise<string> {
    const slots = [...new Set(steps.map(({ slot }) => slot))].filter((slot) => slot !== '');
    const commands = steps.flatMap((step) => step.commands);
    return await this.send(commands, slots.length > maxAskedSlots ? null : slots);
  }

  /** Likewise, and reads back all servers or those of some slots. */
  async send(commands: readonly string[], slots: readonly string[] | null): Promise<string> {
    const answers = await this.#run('write', [...commands, ...askContent(slots)]);
    const read = readContent(this.unit, answers.slice(commands.length), this.#snapshot.settings);
    // What was not asked for is as it was.
    this.#found = { ...read, slotToServers: new Map([...this.content.slotToServers, ...read.slotToServers]) };
    return answers.slice(0, commands.length).find((answer) => !usualAnswer.test(answer)) ?? '';
  }

  async #run(kind: 'read' | 'write', commands: readonly string[]): Promise<readonly string[]> {
    const { memory, context } = this.#snapshot;
    // The pause of a budget is none of the unit's.
    await context.beforeCall(`${kind} ${this.unit}`);
    const { clock } = context;
    const call = { ...this.#snapshot, address: this.#address, clock, limitMs: memory.getLimitMs(this.unit) };
    return await memory.watch(this.unit, () => runCommands(commands, call));
  }
}

/** Nothing, or what HAProxy 2.6 prints when it changes a server's address, or has it already. */
const usualAnswer = /^(?:$|IP changed|port changed|no need to change)/;

function readSessions(answer: string): ReadonlyMap<string, number> {
  const [head = '', ...lines] = answer.split('\n');
  const at = head.replace(/^# /, '').split(',').indexOf('scur');
  return new Map(
    lines.map((line) => {
      const words = line.split(',');
      return [`${words[0] ?? ''}/${words[1] ?? ''}`, Number(words[at] ?? 0)] as const;
    }),
  );
}

/** One call of the driver: both units are asked first. */
class Snapshot {
  readonly units: readonly SnapshotUnit[];
  readonly pair: DevicePair<SnapshotUnit>;
  readonly #how: SnapshotOptions;

  constructor(how: SnapshotOptions) {
    this.units = how.settings.units.map((address) => new SnapshotUnit(address, how));
    this.pair = new DevicePair(this.units, true);
    this.#how = how;
  }

  get answering(): readonly SnapshotUnit[] {
    return this.units.filter(({ hasAnswered }) => hasAnswered);
  }

  /** Asks the units. @throws DeviceError as DevicePair's. */
  async findActive(): Promise<SnapshotUnit> {
    const active = await this.pair.findActive();
    this.#how.memory.active = active.unit;
    return active;
  }

  /** Why a unit does not have what the active one has; empty where it has. */
  compare(unit: SnapshotUnit, active: SnapshotUnit): string {
    const [there, meant] = [unit.describe(), active.describe()];
    const missing = [...meant].filter((text) => !there.has(text)).length;
    const superfluous = [...there].filter((text) => !meant.has(text)).length;
    if (missing + superfluous === 0) return '';
    return `it is behind: it lacks ${missing} balancers as the active unit has them, and has ${superfluous} others`;
  }

  /** What all units are to have when this balancer is as it is wanted; null for gone. */
  aim(active: SnapshotUnit, id: BalancerId, wanted: Balancer | null): Aim {
    const whole = this.answering.filter(({ content }) => isKept(content));
    // A unit that began empty knows less than one that did not. Where all did, each knows a part.
    const others = isKept(active.content) ? [] : whole.length > 0 ? whole : this.answering;
    const base = new Map([...others.toReversed(), active].flatMap(({ balancers }) => [...balancers]));
    return { changes: [[formatMark(id), wanted]], base, active, isWhole: whole.length > 0 };
  }

  /** That each unit has what the active one has, which are at least these. @throws DeviceError nonsense where it has not. */
  aimAtAll(active: SnapshotUnit, all: readonly BalancerId[]): Aim {
    const base = active.balancers;
    const lacking = all.find((id) => !base.has(formatMark(id)));
    if (lacking === undefined) return { changes: [], base, active, isWhole: true };
    throw new DeviceError('nonsense', `${active.unit} has lost ${lacking.namespace}/${lacking.name}`);
  }

  /** Why the active unit cannot have what is wanted; null where it can. */
  findProblem(aim: Aim): DeviceError | null {
    const { markToProblem } = this.planUnit(aim.active, aim);
    return (
      aim.changes.map(([mark]) => markToProblem.get(mark)).find((problem) => problem !== undefined) ?? null
    );
  }

  /** What is to be done at a unit. */
  planUnit(unit: SnapshotUnit, { changes, base, active, isWhole }: Aim): Plan {
    const isOne = (unit === active || unit.role === 'active') && isKept(unit.content);
    const superfluous = isWhole && !isOne ? [...unit.balancers.keys()] : [];
    const gone = superfluous.map((other) => [other, null] as const);
    return planSteps(unit.unit, unit.content, new Map([...gone, ...(isOne ? [] : base), ...changes]));
  }

  /** The active unit first. What another one does not do now, the next call does. */
  async write(aim: Aim): Promise<Progress> {
    const { active } = aim;
    const progress = await this.#writeUnit(active, aim);
    if (progress.result !== 'done') return progress;
    for (const unit of this.answering.filter((one) => one !== active))
      await this.#writeUnit(unit, aim).catch(ignoreDeviceError);
    const problem = this.findProblem(aim);
    return problem === null ? progress : toProgress(problem);
  }

  /** `done` also where that was all that can be done. */
  async #writeUnit(unit: SnapshotUnit, aim: Aim): Promise<Progress> {
    for (let start = 1; start <= maxStarts; start += 1) {
      const { steps } = this.planUnit(unit, aim);
      if (steps.length === 0) return await this.#keep(unit, aim);
      if (unit.content.isSaving) return describeSaving(unit);
      const reservations = steps.filter(({ phase }) => phase === 'claim');
      const words = await unit.write(reservations.length === 0 ? steps : reservations);
      if (reservations.length === 0) return await this.#judge(unit, aim, words);
    }
    return { result: 'failed', why: `${unit.unit} gives the slots that it had free to another cluster` };
  }

  async #judge(unit: SnapshotUnit, aim: Aim, words: string): Promise<Progress> {
    if (unit.content.isSaving) return describeSaving(unit);
    const [left] = this.planUnit(unit, aim).steps;
    if (left === undefined) return await this.#keep(unit, aim);
    const answer = words === '' ? '' : ` (${toPrintableLine(words).slice(0, 200)})`;
    const why = `${unit.unit} has not changed ${left.change.object} as it was told${answer}`;
    return { result: 'failed', why };
  }

  /** It has all that it is to have. Only who knows of all that there is says so to the unit. */
  async #keep(unit: SnapshotUnit, { isWhole }: Aim): Promise<Progress> {
    const others = this.answering.filter((one) => one !== unit).map(({ content }) => content);
    const commands = isWhole ? planKept(unit.content, others) : [];
    if (commands.length > 0) await unit.send(commands, []);
    return { result: 'done', unit: unit.unit };
  }
}

function describeSaving({ unit }: SnapshotUnit): Progress {
  return { result: 'running', retryInMs, why: `${unit} saves what it has, to start again` };
}

/** What a change is for. */
interface Aim {
  /** By mark; null for what is to be gone. */
  readonly changes: readonly (readonly [string, Balancer | null])[];
  /** Of the cluster's balancers before the change, by their marks, all that the units know. */
  readonly base: ReadonlyMap<string, Balancer>;
  readonly active: SnapshotUnit;
  /** These are all of the cluster: what a unit has more is superfluous, and who has them has all. */
  readonly isWhole: boolean;
}
