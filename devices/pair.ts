import { type UnitState, DeviceError, ignoreDeviceError } from './driver.ts';

/**
 * A device of two units, of which one is active, or of one.
 *
 * Goal: what is changed is changed at the unit that serves, wholly or not at all.
 * Tension: units change their roles whenever they like, also between two calls, and nothing can be locked.
 * Compromise: one unit is pinned for a transaction. It alone is asked whether it is still active right before and right after the commit. Where it
 * is not, the transaction starts again at the other one. What was not committed is taken back. Two active units are detected when one begins.
 */

/** What a unit says of its role. */
export interface UnitRole extends Pick<UnitState, 'why'> {
  readonly role: Exclude<UnitState['role'], 'unresponsive'>;
}

/** A unit, as far as a pair needs it. */
export interface PairUnit extends Pick<UnitState, 'unit'> {
  /** Rejects with a DeviceError where it does not answer. */
  readRole(): Promise<UnitRole>;
}

/** What happens at one pinned unit. */
export interface Transaction<Unit, Prepared, Result> {
  /** Reads, and writes what waits for the commit. */
  readonly prepare: (unit: Unit) => Promise<Prepared>;
  /** Takes back what `prepare` wrote, as far as it is not in force, and nothing else. */
  readonly takeBack: (unit: Unit) => Promise<void>;
  /** Puts it into force. */
  readonly commit: (unit: Unit, prepared: Prepared) => Promise<Result>;
  /** What follows when the unit is active after the commit too. */
  readonly finish: (unit: Unit, result: Result, standby: Standby) => Promise<void>;
}

/** Of the other unit, when the transaction began. */
export type Standby = 'answers' | 'silent' | 'none';

/** Roles come to rest within seconds: who still sees them change after so many starts leaves it to the next try. */
export const maxStarts = 3;

/** One or two units. */
export class DevicePair<Unit extends PairUnit> {
  readonly #units: readonly Unit[];
  readonly #areAlike: boolean;

  /** `areAlike`: each is written as the other one is. Where both are active, either may be asked for what both have. */
  constructor(units: readonly Unit[], areAlike = false) {
    this.#units = units;
    this.#areAlike = areAlike;
  }

  /** What each unit says of its role. One that does not answer is `unresponsive`; one that refuses vipnat is unknown. */
  async readUnits(): Promise<readonly UnitState[]> {
    return (await this.#askAll()).map(({ unit, role, error, why }) => ({
      unit: unit.unit,
      role: error?.kind === 'unreachable' ? 'unresponsive' : role,
      isInSync: null,
      why,
    }));
  }

  /**
   * The one active unit. A unit without a pair is taken for active unless it says that it is a standby.
   * @throws DeviceError no-active-unit for none, and for two that are not alike; unreachable or unauthorized where none answers.
   */
  async findActive(): Promise<Unit> {
    return choose(await this.#askAll(), this.#areAlike);
  }

  /**
   * Runs a transaction, at another unit where roles change. Whatever it ends with, nothing uncommitted stays, as far as the unit still answers.
   * @throws DeviceError role-changed after several starts; whatever the transaction throws.
   */
  async transact<Prepared, Result>(transaction: Transaction<Unit, Prepared, Result>): Promise<Result> {
    for (let start = 1; start <= maxStarts; start += 1) {
      const answers = await this.#askAll();
      const pinned = choose(answers, this.#areAlike);
      const answering = answers.filter(({ error }) => error === null).map(({ unit }) => unit);
      const isActive = async () => isTakenForActive(await ask(pinned), answers.length === 1);
      const committed = await tryToCommit(transaction, pinned, isActive);
      if (committed === null || !(await isActive())) continue;
      const standby = this.#units.length === 1 ? 'none' : answering.length === 1 ? 'silent' : 'answers';
      await transaction.finish(pinned, committed.result, standby);
      return committed.result;
    }
    throw new DeviceError('role-changed', `the units changed their roles ${maxStarts} times in one change`);
  }

  /** One after the other: the order of calls is always the same. */
  async #askAll(): Promise<readonly Answer<Unit>[]> {
    const answers: Answer<Unit>[] = [];
    for (const unit of this.#units) answers.push(await ask(unit));
    return answers;
  }
}

interface Answer<Unit> extends UnitRole {
  readonly unit: Unit;
  readonly error: DeviceError | null;
}

async function ask<Unit extends PairUnit>(unit: Unit): Promise<Answer<Unit>> {
  try {
    return { unit, error: null, ...(await unit.readRole()) };
  } catch (error) {
    if (!(error instanceof DeviceError)) throw error;
    return { unit, role: 'unknown', error, why: error.message };
  }
}

function isTakenForActive({ role, error }: Answer<unknown>, isAlone: boolean): boolean {
  return role === 'active' || (isAlone && role === 'unknown' && error === null);
}

function choose<Unit extends PairUnit>(answers: readonly Answer<Unit>[], areAlike: boolean): Unit {
  const isAlone = answers.length === 1;
  const active = answers.filter((answer) => isTakenForActive(answer, isAlone));
  const [one, other] = active;
  if (other !== undefined && !areAlike)
    throw new DeviceError('no-active-unit', 'both units say that they are active');
  if (one !== undefined) return one.unit;
  const errors = answers.flatMap(({ error }) => (error === null ? [] : [error]));
  const [first] = errors;
  if (first !== undefined && errors.length === answers.length) throw first;
  const words = answers.map(
    ({ unit, role, why }) => `${unit.unit} is ${role}${why === '' ? '' : ` (${why})`}`,
  );
  throw new DeviceError('no-active-unit', `no unit is active: ${words.join(', ')}`);
}

/** Null where the unit is no longer active before the commit. What it did not do leaves nothing behind. */
async function tryToCommit<Unit, Prepared, Result>(
  { prepare, commit, takeBack }: Transaction<Unit, Prepared, Result>,
  unit: Unit,
  isActive: () => Promise<boolean>,
): Promise<{ readonly result: Result } | null> {
  // A unit that does not answer now has what waits there taken back when it is pinned next.
  const restore = () => takeBack(unit).catch(ignoreDeviceError);
  try {
    const prepared = await prepare(unit);
    if (await isActive()) return { result: await commit(unit, prepared) };
  } catch (problem) {
    if (problem instanceof DeviceError) await restore();
    throw problem;
  }
  await restore();
  return null;
}

/**
 * Changes of a device that are done together: each round does all that waits, as far as it wants to.
 *
 * Goal: a hundred changes cost little more than one, on a device that reads and commits everything in one step.
 * Tension: each caller waits for its own change alone, and ends it whenever it likes.
 * Compromise: a caller that comes during a round waits for the next one, or joins it as long as it still takes some. A caller that leaves is
 * answered immediately, and the round continues for the others. The last one that leaves ends it, and is answered when it has ended.
 */
interface Round<Request, Result> {
  /** Does what `take` answers, each time it is asked, and says what became of some of it. The others wait for the next round. */
  (take: () => readonly Request[], signal: AbortSignal): Promise<ReadonlyMap<Request, Result>>;
}

interface Waiter<Request, Result> extends Pick<PromiseWithResolvers<Result>, 'resolve' | 'reject'> {
  readonly request: Request;
  readonly signal: AbortSignal;
}

/** One round at a time. */
export class Together<Request, Result> {
  readonly #round: Round<Request, Result>;
  #waiting: readonly Waiter<Request, Result>[] = [];
  #aborting: AbortController | null = null;

  constructor(round: Round<Request, Result>) {
    this.#round = round;
  }

  /** What became of it. Rejects with what a round was ended with, or with the reason of the signal. */
  async add(request: Request, signal: AbortSignal): Promise<Result> {
    signal.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<Result>();
    const waiter = { request, signal, resolve, reject };
    const onAbort = () => {
      this.#leave(waiter, signal.reason);
    };
    signal.addEventListener('abort', onAbort);
    this.#waiting = [...this.#waiting, waiter];
    if (this.#aborting === null) void this.#work();
    return await promise.finally(() => {
      signal.removeEventListener('abort', onAbort);
    });
  }

  #leave(waiter: Waiter<Request, Result>, reason: unknown): void {
    if (this.#waiting.length === 1) {
      this.#aborting?.abort(reason);
      return;
    }
    this.#waiting = this.#waiting.filter((each) => each !== waiter);
    waiter.reject(reason);
  }

  async #work(): Promise<void> {
    while (this.#waiting.length > 0) {
      const { signal } = (this.#aborting = new AbortController());
      const take = () => this.#waiting.map(({ request }) => request);
      try {
        const results = await this.#round(take, signal);
        this.#settle(results);
      } catch (error) {
        // The error is about the device or the process: later callers would get the same. Not so if callers ended the round.
        const [all, isEnded] = [this.#waiting, signal.aborted];
        this.#waiting = all.filter((each) => isEnded && !each.signal.aborted);
        for (const { reject } of all.filter((each) => !isEnded || each.signal.aborted)) reject(error);
      }
    }
    this.#aborting = null;
  }

  #settle(results: ReadonlyMap<Request, Result>): void {
    const all = this.#waiting;
    this.#waiting = all.filter(({ request }) => !results.has(request));
    for (const { request, resolve } of all) {
      const result = results.get(request);
      if (result !== undefined) resolve(result);
    }
  }
}
