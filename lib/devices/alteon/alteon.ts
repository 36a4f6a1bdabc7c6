/** Radware's Alteon, by its REST interface. */
import { SharedLock } from '../../control/shared-lock.ts';
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
import { DevicePair } from '../pair.ts';
import { AlteonChanges, findLiveStates, readForeign, readIsUnsaved } from './changes.ts';
import { readOwned } from './owned.ts';
import { AlteonRest } from './rest.ts';
import { type AlteonSettings, readSettings } from './settings.ts';
import { planSteps } from './steps.ts';
import { makeRows } from './tables.ts';
import { AlteonUnit } from './unit.ts';
import { findRefusal, toRows } from './wanted-rows.ts';

/** Makes a driver for one or two units; docs/drivers.md has its options. */
export const createAlteon: CreateDriver = (settings, context) => {
  const read = readSettings(settings);
  const units = read.units.map(
    (address) => new AlteonUnit(new AlteonRest(address, context), context.clock, read.options),
  );
  return new AlteonDriver(read, units);
};

/** Together they cost little more than one. What one round does not take waits for the next. */
const changesAtOnce = 64;

class AlteonDriver implements LoadBalancerDriver {
  readonly capabilities: Capabilities;
  readonly #settings: AlteonSettings;
  readonly #pair: DevicePair<AlteonUnit>;
  readonly #changes: AlteonChanges;
  /** A unit has one configuration that waits: whoever reads it in the middle of a change reads half of that. */
  readonly #lock = new SharedLock();

  constructor(settings: AlteonSettings, units: readonly AlteonUnit[]) {
    this.#settings = settings;
    this.#pair = new DevicePair(units);
    this.#changes = new AlteonChanges(this.#pair, settings.cluster, this.#lock);
    this.capabilities = {
      ...{ methods: ['rr', 'lc', 'hash'], weights: true, drain: true, sessions: true, affinity: true },
      ...{ ipv6: true, udp: true, atomicCommit: true, pair: units.length === 2, pendingChanges: true },
      changesAtOnce,
    };
  }

  list(signal: AbortSignal): Promise<readonly Owned[]> {
    return this.#lock.alone(async () => {
      signal.throwIfAborted();
      const unit = await this.#pair.findActive(signal);
      const { cluster } = this.#settings;
      const prefix = `vipnat_${cluster}_`;
      const rows = await unit.readRows({ configuration: 'Cur', prefix }, signal);
      const memberToState = await unit.readMemberStates(prefix, signal);
      const serverToSessions = await unit.readSessions(prefix, signal);
      return readOwned({ cluster, rows, memberToState, serverToSessions });
    });
  }

  async plan(wanted: Balancer, signal: AbortSignal): Promise<readonly Change[]> {
    const why = refuse(wanted);
    if (why !== null) throw new DeviceError('refused', why);
    return await this.#lock.alone(async () => {
      signal.throwIfAborted();
      const unit = await this.#pair.findActive(signal);
      const status = await unit.readStatus(signal);
      const prefix = `${formatMark(wanted.id)}_`;
      const rows = toRows(wanted, this.#settings.options);
      const steps = planSteps(await unit.readRows({ configuration: 'Cur', prefix }, signal), rows);
      const states = await unit.readMemberStates(prefix, signal);
      const isUnsaved =
        steps.length === 0 && (await readIsUnsaved(unit, status, this.#settings.cluster, signal));
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
    const why = refuse(wanted);
    if (why !== null) return { result: 'refused', why };
    const rows = toRows(wanted, this.#settings.options);
    return await this.#changes.change({ mark: formatMark(wanted.id), wanted: rows }, signal);
  }

  async remove(id: BalancerId, signal: AbortSignal): Promise<Progress> {
    return await this.#changes.change({ mark: formatMark(id), wanted: makeRows() }, signal);
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
      foreignChanges: await readForeign(active, status, this.#settings.cluster, signal),
    };
  }
}

function refuse(wanted: Balancer): string | null {
  const why = findRefusal(wanted);
  return why === null ? null : `an Alteon cannot have it: ${why}`;
}
