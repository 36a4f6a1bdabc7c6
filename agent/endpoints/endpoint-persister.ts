import { isDeepStrictEqual } from 'node:util';
import { families, type Family } from '../../lib/address/address.ts';
import { type Endpoint, formatEndpoint } from '../../lib/address/endpoint.ts';
import { VipnatError } from '../../lib/text/errors.ts';
import { type Clock } from '../../lib/control/clock.ts';
import { type LastingState } from '../observe/reconcile-state.ts';
import { type SavedEndpoints } from './endpoint-file.ts';
import { type EndpointStore } from './endpoint-store.ts';

/** Notified of how saving went. */
export interface PersisterListener {
  /** It failed, for the first time in a row. */
  notSaved(problem: VipnatError): void;
  /** It works again. */
  savedAgain(location: string): void;
  /** The saved file was removed, torn or changed by another program: it is saved again. */
  lost(location: string): void;
}

/** A full disk is not tried at every look. */
const retryMs = 60_000;

/** Nor is what was saved read at every look. */
const checkMs = 60_000;

/** The state that an agent starts with: what the agent before it has saved. */
export async function recallApiservers(
  store: EndpointStore,
  onProblem: (problem: VipnatError) => void,
): Promise<LastingState> {
  try {
    const saved = await store.load();
    if (saved === null) return nothingKnown;
    const { endpoints, former = [], savedAt } = saved;
    const seenIn = `${store.location} of ${savedAt.slice(0, 16).replace('T', ' ')}`;
    return {
      endpoints: groupByFamily(endpoints, (value) => ({ value, seenIn })),
      previousEndpoints: groupByFamily(former, (value) => value),
    };
  } catch (error) {
    if (!(error instanceof VipnatError)) throw error;
    onProblem(error);
    return nothingKnown;
  }
}

const nothingKnown: LastingState = { endpoints: {}, previousEndpoints: {} };

/** Families without any are left out. */
function groupByFamily<T>(
  endpoints: readonly Endpoint[],
  render: (endpoints: readonly Endpoint[]) => T,
): Partial<Record<Family, T>> {
  const found = families.map((family) => [family, endpoints.filter((one) => one.family === family)] as const);
  return Object.fromEntries(
    found.filter(([, value]) => value.length > 0).map(([family, value]) => [family, render(value)]),
  );
}

/** Saves the apiservers whenever they have changed, and when what was saved is no longer there. */
export class EndpointPersister {
  readonly #store: EndpointStore;
  readonly #clock: Clock;
  readonly #report: PersisterListener;
  #saved: Saved;
  #isFailing = false;
  #nextTry = -Infinity;
  #nextCheck: number;
  #saving: Promise<void> | null = null;

  /** `saved` is what the store holds already. */
  constructor(
    store: EndpointStore,
    clock: Clock,
    options: { saved: LastingState; report: PersisterListener },
  ) {
    this.#store = store;
    this.#clock = clock;
    this.#report = options.report;
    this.#saved = toSaved(options.saved);
    this.#nextCheck = clock.now() + checkMs;
  }

  /** Whether the last attempt succeeded, if there was one. */
  get isSaved(): boolean {
    return !this.#isFailing;
  }

  /** To be told after every look. Returns at once; a family of which nothing is known any more stays as it was. */
  keep(known: LastingState): void {
    const wanted = toSaved(known);
    if (wanted.endpoints.length === 0 || this.#saving !== null) return;
    const isSaved = areSame(wanted, this.#saved);
    if (this.#clock.now() < (isSaved ? this.#nextCheck : this.#nextTry)) return;
    const work = isSaved ? this.#check() : this.#save(wanted);
    this.#saving = work.finally(() => (this.#saving = null));
  }

  /** Ends when nothing is being written. */
  async settle(): Promise<void> {
    await this.#saving;
  }

  async #check(): Promise<void> {
    this.#nextCheck = this.#clock.now() + checkMs;
    const saved = await this.#store.load().catch((error: unknown) => {
      if (error instanceof VipnatError) return null;
      throw error;
    });
    if (saved !== null && areSame(saved, this.#saved)) {
      this.#recover();
      return;
    }
    if (!this.#isFailing) this.#report.lost(this.#store.location);
    await this.#save(this.#saved);
  }

  async #save(wanted: Saved): Promise<void> {
    try {
      await this.#store.save({ savedAt: this.#clock.date().toISOString(), ...wanted });
      this.#saved = wanted;
      this.#recover();
    } catch (error) {
      if (!(error instanceof VipnatError)) throw error;
      if (!this.#isFailing) this.#report.notSaved(error);
      this.#isFailing = true;
      this.#nextTry = this.#clock.now() + retryMs;
    }
  }

  #recover(): void {
    if (this.#isFailing) this.#report.savedAgain(this.#store.location);
    this.#isFailing = false;
  }
}

/** What is saved, but for the time. */
type Saved = Pick<SavedEndpoints, 'endpoints' | 'former'>;

function toSaved({ endpoints, previousEndpoints }: LastingState): Saved {
  const before = families.flatMap((family) => previousEndpoints[family] ?? []);
  return {
    endpoints: families.flatMap((family) => endpoints[family]?.value ?? []),
    ...(before.length === 0 ? {} : { former: before }),
  };
}

function areSame(left: Saved, right: Saved): boolean {
  const [a, b] = [left, right].map(({ endpoints, former = [] }) => [
    endpoints.map(formatEndpoint),
    former.map(formatEndpoint),
  ]);
  return isDeepStrictEqual(a, b);
}
