/**
 * Radware's Alteon, by its REST interface.
 *
 * Goal: each Service is on the pair as it is wanted, and nobody else's work there is touched.
 * Tension: a unit has one candidate configuration for all its users, applies all of it at once, and forgets what is not saved.
 * Compromise: a change begins with nothing of ours waiting, and stops where something of others waits. It writes what differs, row by row, and is
 * applied and saved as one. What does not come to that is taken back row by row: the unit's own `revert` would take others' work with it.
 */
import { DeviceError } from '../device-error.ts';
import {
  type Balancer,
  type BalancerId,
  type Capabilities,
  type Change,
  type CreateDriver,
  type DeviceState,
  type LoadBalancerDriver,
  type Owned,
  type Progress,
} from '../driver.ts';
import { formatMark } from '../mark.ts';
import { DevicePair, type Standby } from '../pair.ts';
import { findForeign, hasOurs } from './foreign.ts';
import { readOwned } from './owned.ts';
import { AlteonRest } from './rest.ts';
import { type AlteonSettings, readSettings } from './settings.ts';
import { memberStates, planSteps, type Step } from './steps.ts';
import { makeRows, ofTable, type Rows, tableIds } from './tables.ts';
import { type AlteonStatus, AlteonUnit, type Configuration } from './unit.ts';
import { findRefusal, toRows } from './wanted-rows.ts';

/** Makes a driver for one or two units; docs/drivers.md has its options. */
export const createAlteon: CreateDriver = (settings, context) => {
  const read = readSettings(settings);
  const units = read.units.map(
    (address) => new AlteonUnit(new AlteonRest(address, context), context.clock, read.options),
  );
  return new AlteonDriver(read, units);
};

/** While a unit applies or saves for longer than a call waits. */
const retryInMs = 5000;

/** That of what has this mark there are these rows, and no others. */
interface Target {
  readonly prefix: string;
  readonly wanted: Rows;
}

/** What a change came to before its commit. */
interface Prepared extends Target {
  readonly steps: readonly Step[];
  /** By `GROUP/SERVER`: the states to set at once. */
  readonly liveStates: ReadonlyMap<string, number>;
  readonly status: AlteonStatus;
  /** Something of ours is in force, and not saved. */
  readonly isUnsaved: boolean;
}

/** What a commit came to. */
interface Committed {
  readonly progress: Progress;
  readonly needsSync: 'yes' | 'no' | 'if-standby-answers';
}

const done = { progress: { result: 'done' } } as const;

function running(unit: AlteonUnit, why: string): Committed {
  return { progress: { result: 'running', retryInMs, why: `${unit.unit} ${why}` }, needsSync: 'no' };
}

class AlteonDriver implements LoadBalancerDriver {
  readonly capabilities: Capabilities;
  readonly #settings: AlteonSettings;
  readonly #pair: DevicePair<AlteonUnit>;
  #last: Promise<unknown> = Promise.resolve();

  constructor(settings: AlteonSettings, units: readonly AlteonUnit[]) {
    this.#settings = settings;
    this.#pair = new DevicePair(units);
    this.capabilities = {
      ...{ methods: ['rr', 'lc', 'hash'], weights: true, drain: true, sessions: true, affinity: true },
      ...{ ipv6: true, udp: true, atomicCommit: true, pair: units.length === 2, pendingChanges: true },
    };
  }

  list(signal: AbortSignal): Promise<readonly Owned[]> {
    return this.#afterOthers(signal, async () => {
      const unit = await this.#pair.findActive(signal);
      const { cluster } = this.#settings;
      const prefix = `vipnat_${cluster}_`;
      const rows = await unit.readRows({ configuration: 'Cur', prefix }, signal);
      const memberToState = await unit.readMemberStates(prefix, signal);
      const serverToSessions = await unit.readSessions(prefix, signal);
      return readOwned({ cluster, rows, memberToState, serverToSessions });
    });
  }

  plan(wanted: Balancer, signal: AbortSignal): Promise<readonly Change[]> {
    return this.#afterOthers(signal, async () => {
      const unit = await this.#pair.findActive(signal);
      const status = await unit.readStatus(signal);
      const prefix = `${formatMark(wanted.id)}_`;
      const rows = toRows(wanted, this.#settings.options);
      const steps = planSteps(await unit.readRows({ configuration: 'Cur', prefix }, signal), rows);
      const states = await unit.readMemberStates(prefix, signal);
      const isUnsaved = steps.length === 0 && (await this.#isUnsaved(unit, status, signal));
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
    if (why !== null) return { result: 'refused', why: `an Alteon cannot have it: ${why}` };
    return await this.#change(wanted.id, toRows(wanted, this.#settings.options), signal);
  }

  async remove(id: BalancerId, signal: AbortSignal): Promise<Progress> {
    return await this.#change(id, makeRows(), signal);
  }

  async readState(signal: AbortSignal): Promise<DeviceState> {
    const units = await this.#pair.readUnits(signal);
    const isOne = units.filter(({ role }) => role === 'active').length === 1 || units.length === 1;
    if (!isOne || units.every(({ role }) => role === 'silent')) return { units, foreignChanges: [] };
    const active = await this.#pair.findActive(signal);
    const status = await active.readStatus(signal);
    return {
      units: units.map((state) => {
        if (state.unit === active.unit) return { ...state, isInSync: true };
        if (state.role === 'silent') return state;
        return {
          ...state,
          isInSync: status.isInSync,
          why: state.why === '' ? status.syncProblem : state.why,
        };
      }),
      foreignChanges: await this.#findForeign(active, status, signal),
    };
  }

  /** Makes it so that of an object's mark there are these rows and no others. */
  async #change(id: BalancerId, wanted: Rows, signal: AbortSignal): Promise<Progress> {
    try {
      return await this.#afterOthers(signal, async () => {
        const { progress } = await this.#pair.transact<Prepared, Committed>(
          {
            prepare: (unit) => this.#prepare(unit, { prefix: `${formatMark(id)}_`, wanted }, signal),
            takeBack: (unit) => this.#takeBack(unit, signal),
            commit: (unit, prepared) => this.#commit(unit, prepared, signal),
            finish: (unit, committed, standby) => sync(unit, committed, standby, signal),
          },
          signal,
        );
        return progress;
      });
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof DeviceError) return { result: 'failed', why: error.message };
      throw error;
    }
  }

  async #prepare(unit: AlteonUnit, target: Target, signal: AbortSignal): Promise<Prepared> {
    const { prefix, wanted } = target;
    const status = await unit.awaitRest(signal);
    if (status.isBusy) return { ...target, steps: [], liveStates: new Map(), status, isUnsaved: false };
    await this.#refuseForeign(unit, status, signal);
    // An earlier try may have ended anywhere.
    if (status.isPending) await this.#takeBack(unit, signal);
    const steps = planSteps(await unit.readRows({ configuration: 'New', prefix }, signal), wanted);
    const liveStates = findLiveStates(wanted, await unit.readMemberStates(prefix, signal));
    for (const step of steps) await unit.write(step, signal);
    const isUnsaved = steps.length === 0 && (await this.#isUnsaved(unit, status, signal));
    return { ...target, steps, liveStates, status, isUnsaved };
  }

  async #commit(unit: AlteonUnit, prepared: Prepared, signal: AbortSignal): Promise<Committed> {
    const { steps, status, isUnsaved } = prepared;
    if (status.isBusy) return running(unit, 'applies or saves something else');
    const setLiveStates = async () => {
      for (const [key, state] of prepared.liveStates) await unit.setMemberState(key, state, signal);
    };
    // What only drains does so at once; where something is new, that serves first.
    const hasNew = steps.some(({ isNew }) => isNew);
    if (!hasNew) await setLiveStates();
    if (steps.length > 0) {
      await expectRows(unit, prepared, 'New', signal);
      await this.#refuseForeign(unit, { isPending: true }, signal);
      if ((await unit.act('apply', signal)) === 'running') return running(unit, 'still applies it');
    }
    if (hasNew) await setLiveStates();
    if (steps.length === 0 && !isUnsaved) {
      return { ...done, needsSync: status.isInSync === false ? 'if-standby-answers' : 'no' };
    }
    if ((await unit.act('save', signal)) === 'running') return running(unit, 'still saves it');
    await expectRows(unit, prepared, 'Cur', signal);
    return { ...done, needsSync: 'yes' };
  }

  /** What waits of this cluster becomes what is in force. */
  async #takeBack(unit: AlteonUnit, signal: AbortSignal): Promise<void> {
    const { isPending, isBusy } = await unit.readStatus(signal);
    if (!isPending || isBusy) return;
    const prefix = `vipnat_${this.#settings.cluster}_`;
    const waiting = await unit.readRows({ configuration: 'New', prefix }, signal);
    const steps = planSteps(waiting, await unit.readRows({ configuration: 'Cur', prefix }, signal));
    for (const step of steps) await unit.write(step, signal);
  }

  async #refuseForeign(
    unit: AlteonUnit,
    status: Pick<AlteonStatus, 'isPending'>,
    signal: AbortSignal,
  ): Promise<void> {
    const foreign = await this.#findForeign(unit, status, signal);
    if (foreign.length === 0) return;
    const words = foreign.map((line) => line.trim()).join(' ');
    throw new DeviceError(
      'foreign-changes',
      `${unit.unit} has changes of another user that wait to be applied: apply or revert them there (${quoteShort(words)})`,
    );
  }

  async #findForeign(
    unit: AlteonUnit,
    { isPending }: Pick<AlteonStatus, 'isPending'>,
    signal: AbortSignal,
  ): Promise<readonly string[]> {
    if (!isPending) return [];
    return findForeign(await unit.readDifference('getdiff', signal), this.#settings.cluster);
  }

  async #isUnsaved(unit: AlteonUnit, status: AlteonStatus, signal: AbortSignal): Promise<boolean> {
    if (!status.isUnsaved) return false;
    return hasOurs(await unit.readDifference('getdiffflash', signal), this.#settings.cluster);
  }

  /** A unit has one configuration that waits: whoever reads it in the middle of a change reads half of that. */
  async #afterOthers<Result>(signal: AbortSignal, act: () => Promise<Result>): Promise<Result> {
    const mine = this.#last.then(async () => {
      signal.throwIfAborted();
      return await act();
    });
    this.#last = mine.catch(() => undefined);
    return await mine;
  }
}

const maxQuotedShort = 200;

function quoteShort(text: string): string {
  return text.length > maxQuotedShort ? `${text.slice(0, maxQuotedShort)}…` : text;
}

/** Of the members that a unit works with already: what becomes new begins as it is configured. */
function findLiveStates(wanted: Rows, states: ReadonlyMap<string, number>): ReadonlyMap<string, number> {
  return new Map(
    [...ofTable(wanted, 'groupMember')].flatMap(([key, { State }]) => {
      const state = Number(State ?? memberStates.enabled);
      return states.has(key) && states.get(key) !== state ? [[key, state] as const] : [];
    }),
  );
}

/** A unit that starts again, and a user who reverts, take away what waits: what is left of it must not be applied, nor taken for the whole. */
async function expectRows(
  unit: AlteonUnit,
  { prefix, wanted, steps }: Prepared,
  configuration: Configuration,
  signal: AbortSignal,
): Promise<void> {
  const ids = steps.length === 0 ? tableIds : [...new Set(steps.map(({ table }) => table))];
  const found = await unit.readRows({ configuration, prefix, ids }, signal);
  const asked = new Map(ids.map((id) => [id, ofTable(wanted, id)]));
  if (planSteps(found, asked).length === 0) return;
  throw new DeviceError(
    'refused',
    `${unit.unit} has lost a part of what was written: it started again, or a user reverted`,
  );
}

/** What serves does not wait for its standby, but has to be there still. A standby that stays behind is brought up to date by the next call. */
async function sync(
  unit: AlteonUnit,
  { needsSync }: Committed,
  standby: Standby,
  signal: AbortSignal,
): Promise<void> {
  const isWanted = needsSync === 'yes' || (needsSync === 'if-standby-answers' && standby === 'answers');
  if (standby === 'none' || !isWanted) return;
  try {
    await unit.startSync(signal);
  } catch (error) {
    if (!(error instanceof DeviceError) || error.kind === 'unreachable') throw error;
  }
}
