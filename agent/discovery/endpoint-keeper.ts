import { families } from '../../lib/address/address.ts';
import { areSameEndpoints, type Endpoint } from '../../lib/address/endpoint.ts';
import { VipnatError } from '../../lib/errors.ts';
import { type Clock } from '../../lib/kernel/clock.ts';
import { type Memory } from '../memory.ts';
import { type EndpointStore } from './endpoint-store.ts';

/** Who is told of what became of saving. */
export interface KeeperReport {
  /** It failed, for the first time in a row. */
  notSaved(problem: VipnatError): void;
  /** It works again. */
  savedAgain(location: string): void;
  /** Somebody has removed, torn or changed what was saved: it is saved anew. */
  lost(location: string): void;
}

/** A full disk is not tried at every look. */
const retryMs = 60_000;

/** Nor is what was saved read at every look. */
const checkMs = 60_000;

/** What an agent without a memory of its own remembers: what the one before it has saved. */
export async function recallEndpoints(
  store: EndpointStore,
  onProblem: (problem: VipnatError) => void,
): Promise<Memory['endpoints']> {
  try {
    const saved = await store.load();
    if (saved === null) return {};
    const seenIn = `${store.location} of ${saved.savedAt.slice(0, 16).replace('T', ' ')}`;
    const found = families.map((family) => {
      const value = saved.endpoints.filter((endpoint) => endpoint.family === family);
      return [family, { value, seenIn }] as const;
    });
    return Object.fromEntries(found.filter(([, { value }]) => value.length > 0));
  } catch (error) {
    if (!(error instanceof VipnatError)) throw error;
    onProblem(error);
    return {};
  }
}

/** Saves the apiservers whenever they have changed, and when what was saved is no longer there. */
export class EndpointKeeper {
  readonly #store: EndpointStore;
  readonly #clock: Clock;
  readonly #report: KeeperReport;
  #saved: readonly Endpoint[];
  #isFailing = false;
  #nextTry = -Infinity;
  #nextCheck: number;
  #saving: Promise<void> | null = null;

  /** `saved` is what the store holds already. */
  constructor(
    store: EndpointStore,
    clock: Clock,
    options: { saved: Memory['endpoints']; report: KeeperReport },
  ) {
    this.#store = store;
    this.#clock = clock;
    this.#report = options.report;
    this.#saved = listEndpoints(options.saved);
    this.#nextCheck = clock.now() + checkMs;
  }

  /** Whether the last attempt succeeded, if there was one. */
  get isSaved(): boolean {
    return !this.#isFailing;
  }

  /** To be told after every look. Returns at once; a family of which nothing is known any more stays as it was. */
  keep(endpoints: Memory['endpoints']): void {
    const wanted = listEndpoints(endpoints);
    if (wanted.length === 0 || this.#saving !== null) return;
    const isSaved = areSameEndpoints(wanted, this.#saved);
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
    const saved = await this.#store.load().catch(() => null);
    if (saved !== null && areSameEndpoints(saved.endpoints, this.#saved)) {
      this.#recover();
      return;
    }
    if (!this.#isFailing) this.#report.lost(this.#store.location);
    await this.#save(this.#saved);
  }

  async #save(endpoints: readonly Endpoint[]): Promise<void> {
    try {
      await this.#store.save({ savedAt: this.#clock.date().toISOString(), endpoints });
      this.#saved = endpoints;
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

function listEndpoints(endpoints: Memory['endpoints']): Endpoint[] {
  return families.flatMap((family) => endpoints[family]?.value ?? []);
}
