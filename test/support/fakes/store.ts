import type { EndpointStore, SavedEndpoints } from '../../../agent/state.ts';
import type { VipnatError } from '../../../lib/errors.ts';

/** A store that remembers all that was saved, and fails where told to. */
export class FakeStore implements EndpointStore {
  readonly location = '/var/lib/vipnat/endpoints.json';
  readonly saves: SavedEndpoints[] = [];
  /** What every attempt fails with while it is set. */
  problem: VipnatError | null = null;
  attempts = 0;

  load(): Promise<SavedEndpoints | null> {
    return this.problem === null ? Promise.resolve(this.saves.at(-1) ?? null) : Promise.reject(this.problem);
  }

  save(saved: SavedEndpoints): Promise<void> {
    this.attempts += 1;
    if (this.problem !== null) return Promise.reject(this.problem);
    this.saves.push(saved);
    return Promise.resolve();
  }
}
