import { type Rows, type Step, splitByMark, tableIds, makeRows } from './tables.ts';
import {
  type AlteonStatus,
  type AlteonSettings,
  type AlteonUnit,
  type Configuration,
  openUnit,
  readSettings,
} from './client.ts';
import {
  type Progress,
  DeviceError,
  type CreateDriver,
  type DriverContext,
  type LoadBalancerDriver,
  type Capabilities,
  type Owned,
  type Balancer,
  type Change,
  formatMark,
  type BalancerId,
  type DeviceState,
} from '../driver.ts';
import { DevicePair, Together, type Standby } from '../pair.ts';
import { SharedLock } from '../../lib/queue.ts';
import {
  planSteps,
  sortSteps,
  memberStates,
  findOtherCluster,
  readOwned,
  toRows,
  findRefusal,
} from './rows.ts';

/**
 * The differences that a unit prints, as far as they are not all about one cluster's objects. It prints commands: a line that begins with `/c/` opens
 * an object, and the lines after it say what changes there. What cannot be read is foreign. It is published: of objects that may have passwords and
 * keys there is only which ones they are.
 */
export function findForeign(lines: readonly string[], cluster: string): readonly string[] {
  const blocks = toBlocks(lines);
  if (blocks.length === 0) return lines.length === 0 ? [] : ['changes that vipnat cannot read'];
  const foreign = blocks.filter(([header = '']) => !isOwn(header, cluster));
  const harmless = /^\s*\/c(?:fg)?\/slb\/(?:real|group|virt)\s/;
  return foreign.flatMap((block) => block.slice(0, harmless.test(block[0] ?? '') ? block.length : 1));
}

/** Whether one of the objects is of this cluster. */
export function hasOwn(lines: readonly string[], cluster: string): boolean {
  return toBlocks(lines).some(([header = '']) => isOwn(header, cluster));
}

/** Lines before the first object are a comment. */
function toBlocks(lines: readonly string[]): readonly (readonly string[])[] {
  const blocks: string[][] = [];
  for (const line of lines) {
    if (/^\s*\/c(fg)?\//.test(line)) blocks.push([line]);
    else blocks.at(-1)?.push(line);
  }
  return blocks;
}

/** Some versions print names in quotes. */
function isOwn(header: string, cluster: string): boolean {
  const [, name = ''] = /^\s*\/c(?:fg)?\/slb\/(?:real|group|virt)\s+"?([^\s"/]+)/.exec(header) ?? [];
  return name.startsWith(`vipnat_${cluster}_`);
}

/**
 * Changes of an Alteon, all that wait as one.
 *
 * Goal: each Service is on the pair as it is wanted, and other users' work there is not touched.
 * Tension: a unit has one candidate configuration for all its users, applies all of it in one step, and forgets what is not saved. To read it
 * costs as much for one balancer as for all.
 * Compromise: a change begins with no change of vipnat waiting, and stops where another user's change waits. It writes what differs, row by row,
 * and is applied and saved as one. What cannot be applied is taken back row by row: the unit's own `revert` would undo other users' work with it.
 * Where a unit refuses several balancers, each half is tried alone, down to the one that it refuses.
 */

/** That of what has this mark there are these rows, and no others. */
interface MarkedRows {
  readonly mark: string;
  readonly wanted: Rows;
}

interface Plan {
  readonly request: MarkedRows;
  /** Another cluster of the same name has written what has the mark: it stays, whatever is wanted. */
  readonly isOthers: boolean;
  readonly steps: readonly Step[];
  /** By `GROUP/SERVER`: the states to set immediately. */
  readonly liveStates: ReadonlyMap<string, number>;
}

interface Prepared {
  readonly plans: readonly Plan[];
  readonly steps: readonly Step[];
  readonly status: AlteonStatus;
  /** A change of vipnat is in force, and not saved. */
  readonly isUnsaved: boolean;
}

interface Committed {
  readonly progress: Progress;
  readonly needsSync: 'yes' | 'no' | 'if-standby-answers';
}

/** While a unit applies or saves for longer than a call waits. */
const retryInMs = 5000;

/** A round begins no further balancer after so many requests: it takes seconds, and whoever waits for the next one waits no longer. */
const maxWrites = 150;

function running(unit: AlteonUnit, why: string): Committed {
  return { progress: { result: 'running', retryInMs, why: `${unit.unit} ${why}` }, needsSync: 'no' };
}

/** Makes a driver of Radware's Alteon, by its REST interface, for one or two units; docs/drivers.md has its options. */
export const createAlteon: CreateDriver = (settings, context) =>
  new AlteonDriver(readSettings(settings), context);

/** Together they cost little more than one. What one round does not take waits for the next. */
const changesAtOnce = 64;

class AlteonDriver implements LoadBalancerDriver {
  readonly capabilities: Capabilities;
  readonly #settings: AlteonSettings;
  readonly #open: (signal: AbortSignal) => DevicePair<AlteonUnit>;
  readonly #prefix: string;
  /** A unit has one configuration that waits: whoever reads it in the middle of a change reads half of that. */
  readonly #lock = new SharedLock();
  readonly #together = new Together<MarkedRows, Progress>((take, signal) => this.#round(take, signal));
  /** What was refused together with others, to the number of those with which it is tried next. All else is of 0. */
  readonly #markToGroup = new Map<string, number>();
  #groups = 0;

  constructor(settings: AlteonSettings, context: DriverContext) {
    this.#settings = settings;
    const units = settings.units.map((address) => openUnit(address, context, settings.options));
    this.#open = (signal) => new DevicePair(units.map((open) => open(signal)));
    this.#prefix = `vipnat_${settings.cluster}_`;
    const pair = settings.units.length === 2;
    this.capabilities = {
      ...{ methods: ['rr', 'lc', 'hash'], weights: true, drain: true, sessions: true, affinity: true },
      ...{ ipv6: true, udp: true, atomicCommit: true, pair, pendingChanges: true },
      ...{ identity: true, changesAtOnce },
    };
  }

  list(signal: AbortSignal): Promise<readonly Owned[]> {
    return this.#lock.alone(async () => {
      signal.throwIfAborted();
      const unit = await this.#open(signal).findActive();
      const rows = await unit.readRows('Cur', this.#prefix);
      const memberToState = await unit.readMemberStates(this.#prefix);
      const serverToSessions = await unit.readSessions(this.#prefix);
      return readOwned({ ...this.#settings, rows, memberToState, serverToSessions });
    });
  }

  async plan(wanted: Balancer, signal: AbortSignal): Promise<readonly Change[]> {
    const why = findRefusal(wanted);
    if (why !== null) throw new DeviceError('refused', why);
    return await this.#lock.alone(async () => {
      signal.throwIfAborted();
      const unit = await this.#open(signal).findActive();
      const status = await unit.readStatus();
      const prefix = `${formatMark(wanted.id)}_`;
      const rows = toRows(wanted, this.#settings);
      const steps = planSteps(await unit.readRows('Cur', prefix), rows);
      const states = await unit.readMemberStates(prefix);
      const isUnsaved = steps.length === 0 && (await this.#readIsUnsaved(unit, status));
      const saving = { object: 'saved configuration', before: 'without what is in force', after: 'with it' };
      return [
        ...steps.map(({ change }) => change),
        ...[...findLiveStates(rows, states)].map(([key, state]) => ({
          object: `state of member ${key}`,
          before: `State=${states.get(key) ?? ''}`,
          after: `State=${state}`,
        })),
        ...(isUnsaved ? [saving] : []),
      ];
    });
  }

  async ensure(wanted: Balancer, signal: AbortSignal): Promise<Progress> {
    const why = findRefusal(wanted);
    if (why !== null) return { result: 'refused', why };
    const rows = toRows(wanted, this.#settings);
    return await this.#together.add({ mark: formatMark(wanted.id), wanted: rows }, signal);
  }

  async remove(id: BalancerId, signal: AbortSignal): Promise<Progress> {
    return await this.#together.add({ mark: formatMark(id), wanted: makeRows() }, signal);
  }

  async readState(signal: AbortSignal): Promise<DeviceState> {
    const pair = this.#open(signal);
    const units = await pair.readUnits();
    const isOne = units.filter(({ role }) => role === 'active').length === 1 || units.length === 1;
    if (!isOne || units.every(({ role }) => role === 'unresponsive')) return { units, foreignChanges: [] };
    const active = await pair.findActive();
    const status = await active.readStatus();
    return {
      units: units.map((state) => {
        if (state.unit === active.unit) return { ...state, isInSync: true };
        if (state.role === 'unresponsive') return state;
        return { ...state, isInSync: status.isInSync, why: state.why || status.syncProblem };
      }),
      foreignChanges: await this.#readForeign(active, status.isPending),
    };
  }

  async #round(take: () => readonly MarkedRows[], signal: AbortSignal) {
    const round: { plans: readonly Plan[] | null } = { plans: null };
    const toResults = (progress: Progress) =>
      new Map((round.plans?.map(({ request }) => request) ?? take()).map((request) => [request, progress]));
    try {
      const { progress } = await this.#lock.alone(() =>
        this.#open(signal).transact<Prepared, Committed>({
          prepare: async (unit) => {
            round.plans = null;
            const prepared = await this.#prepare(unit, take);
            round.plans = prepared.plans;
            for (const step of prepared.steps) await unit.write(step);
            return prepared;
          },
          takeBack: (unit) => this.#takeBack(unit),
          commit: (unit, prepared) => this.#commit(unit, prepared),
          finish: sync,
        }),
      );
      for (const { mark } of toResults(progress).keys()) this.#markToGroup.delete(mark);
      return new Map([...toResults(progress), ...refuseOthers(round.plans ?? [])]);
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof DeviceError)) throw error;
      if (error.kind === 'refused' && this.#split(round.plans ?? [])) return new Map<MarkedRows, Progress>();
      return toResults({ result: 'failed', why: error.message, kind: error.kind });
    }
  }

  /** Whether there is anything to be split. */
  #split(plans: readonly Plan[]): boolean {
    const marks = plans.filter(({ steps }) => steps.length > 0).map(({ request: { mark } }) => mark);
    if (marks.length < 2) return false;
    this.#groups += 2;
    for (const [at, mark] of marks.entries())
      this.#markToGroup.set(mark, this.#groups - (at < marks.length / 2 ? 1 : 0));
    return true;
  }

  /** Reads what is there, and says what it takes. */
  async #prepare(unit: AlteonUnit, take: () => readonly MarkedRows[]): Promise<Prepared> {
    const status = await unit.awaitRest();
    if (status.isBusy) return { plans: take().map(toIdlePlan), steps: [], status, isUnsaved: false };
    await this.#refuseForeign(unit, status.isPending);
    // An earlier try may have ended anywhere.
    if (status.isPending) await this.#takeBack(unit);
    const markToRows = splitByMark(await unit.readRows('New', this.#prefix));
    const states = await unit.readMemberStates(this.#prefix);
    const plans = this.#choose(
      take().map((request) => {
        const there = markToRows.get(request.mark) ?? makeRows();
        const idle = toIdlePlan(request);
        if (findOtherCluster(there, this.#settings.identity) !== undefined)
          return { ...idle, isOthers: true };
        const steps = planSteps(there, request.wanted);
        return { ...idle, steps, liveStates: findLiveStates(request.wanted, states) };
      }),
    );
    const steps = sortSteps(plans.flatMap((plan) => plan.steps));
    const isUnsaved = steps.length === 0 && (await this.#readIsUnsaved(unit, status));
    return { plans, steps, status, isUnsaved };
  }

  /** Of those that change something, the first ones, and with them what is of the same group. */
  #choose(plans: readonly Plan[]): readonly Plan[] {
    const getGroup = ({ request: { mark } }: Plan) => this.#markToGroup.get(mark) ?? 0;
    const first = plans.find(({ steps }) => steps.length > 0);
    const marks = new Set<string>();
    let writes = 0;
    return plans.filter((plan) => {
      const { request, steps, liveStates } = plan;
      const isOther = first !== undefined && steps.length > 0 && getGroup(plan) !== getGroup(first);
      const cost = steps.length + liveStates.size;
      if (isOther || marks.has(request.mark) || (writes > 0 && writes + cost > maxWrites)) return false;
      writes += cost;
      marks.add(request.mark);
      return true;
    });
  }

  async #commit(unit: AlteonUnit, prepared: Prepared): Promise<Committed> {
    const { plans, steps, status, isUnsaved } = prepared;
    const progress = { result: 'done', unit: unit.unit } as const;
    if (status.isBusy) return running(unit, 'applies or saves something else');
    const setLiveStates = async () => {
      for (const [key, state] of plans.flatMap(({ liveStates }) => [...liveStates]))
        await unit.setMemberState(key, state);
    };
    // A change that only drains does so immediately; where something is new, that serves first.
    const hasNew = steps.some(({ isNew }) => isNew);
    if (!hasNew) await setLiveStates();
    if (steps.length > 0) {
      await this.#expectRows(unit, prepared, 'New');
      await this.#refuseForeign(unit, true);
      if ((await unit.act('apply')) === 'running') return running(unit, 'still applies it');
    }
    if (hasNew) await setLiveStates();
    if (steps.length === 0 && !isUnsaved)
      return { progress, needsSync: status.isInSync === false ? 'if-standby-answers' : 'no' };
    if ((await unit.act('save')) === 'running') return running(unit, 'still saves it');
    await this.#expectRows(unit, prepared, 'Cur');
    return { progress, needsSync: 'yes' };
  }

  /** A unit that starts again, and a user who reverts, take away what waits: what is left of it must not be applied, nor taken for the whole. */
  async #expectRows(unit: AlteonUnit, prepared: Prepared, configuration: Configuration): Promise<void> {
    const { plans, steps } = prepared;
    const ids = steps.length === 0 ? tableIds : [...new Set(steps.map(({ table }) => table))];
    const markToRows = splitByMark(await unit.readRows(configuration, this.#prefix, ids));
    const isThere = ({ request: { mark, wanted }, isOthers }: Plan) => {
      if (isOthers) return true;
      const asked = { ...makeRows(), ...Object.fromEntries(ids.map((id) => [id, wanted[id]])) };
      return planSteps(markToRows.get(mark) ?? makeRows(), asked).length === 0;
    };
    if (plans.every(isThere)) return;
    const why = 'has lost a part of what was written: it started again, or a user reverted';
    throw new DeviceError('refused', `${unit.unit} ${why}`);
  }

  /** What waits of this cluster becomes what is in force. */
  async #takeBack(unit: AlteonUnit): Promise<void> {
    const { isPending, isBusy } = await unit.readStatus();
    if (!isPending || isBusy) return;
    const waiting = await unit.readRows('New', this.#prefix);
    for (const step of planSteps(waiting, await unit.readRows('Cur', this.#prefix))) await unit.write(step);
  }

  async #refuseForeign(unit: AlteonUnit, isPending: boolean): Promise<void> {
    const foreign = await this.#readForeign(unit, isPending);
    if (foreign.length === 0) return;
    const all = foreign.map((line) => line.trim()).join(' ');
    const words = all.length > 200 ? `${all.slice(0, 200)}…` : all;
    const why = 'has changes of another user that wait to be applied: apply or revert them there';
    throw new DeviceError('foreign-changes', `${unit.unit} ${why} (${words})`);
  }

  /** What other users have changed and not applied, as the unit prints it. */
  async #readForeign(unit: AlteonUnit, isPending: boolean): Promise<readonly string[]> {
    return isPending ? findForeign(await unit.readDifference('getdiff'), this.#settings.cluster) : [];
  }

  /** Whether something of the cluster is in force that a restart forgets. */
  async #readIsUnsaved(unit: AlteonUnit, { isUnsaved }: AlteonStatus): Promise<boolean> {
    return isUnsaved && hasOwn(await unit.readDifference('getdiffflash'), this.#settings.cluster);
  }
}

function toIdlePlan(request: MarkedRows): Plan {
  return { request, isOthers: false, steps: [], liveStates: new Map() };
}

/** What another cluster has written is not this one's to change; that it is not removed is no failure. */
function refuseOthers(plans: readonly Plan[]): readonly (readonly [MarkedRows, Progress])[] {
  const why = 'another cluster of the same name has written what is there';
  return plans
    .filter(({ isOthers, request: { wanted } }) => isOthers && wanted.group.size > 0)
    .map(({ request }) => [request, { result: 'failed', why, kind: 'foreign-changes' }]);
}

/** Of the members that a unit works with already: what becomes new begins as it is configured. */
function findLiveStates(wanted: Rows, states: ReadonlyMap<string, number>): ReadonlyMap<string, number> {
  return new Map(
    [...wanted.groupMember].flatMap(([key, { State }]) => {
      const state = Number(State ?? memberStates.enabled);
      return states.has(key) && states.get(key) !== state ? [[key, state] as const] : [];
    }),
  );
}

/** What serves does not wait for its standby, but has to be there still. A standby that stays behind is brought up to date by the next call. */
async function sync(unit: AlteonUnit, { needsSync }: Committed, standby: Standby): Promise<void> {
  const isWanted = needsSync === 'yes' || (needsSync === 'if-standby-answers' && standby === 'answers');
  if (standby === 'none' || !isWanted) return;
  try {
    await unit.startSync();
  } catch (error) {
    if (!(error instanceof DeviceError) || error.kind === 'unreachable') throw error;
  }
}
