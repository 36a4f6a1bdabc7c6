import { expect, jest, test } from '@jest/globals';
import { fc } from '../../../support/random/fc.ts';
import { LeaderElection } from '../../../../lib/kubernetes/leader.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { LeaseApi, type Trip } from '../../../support/fakes/lease-api.ts';

// Hundreds of runs take seconds; on a busy machine, several times that.
jest.setTimeout(240_000);

const pollMs = 250;
const quick: Trip = { thereMs: 2, backMs: 2 };

/** Mostly well, sometimes so slow that nothing can be known of it. */
const slow = fc.oneof(
  { weight: 4, arbitrary: fc.constant(5) },
  { weight: 2, arbitrary: fc.integer({ min: 0, max: 5000 }) },
  { weight: 1, arbitrary: fc.integer({ min: 0, max: 40_000 }) },
);
const trip: fc.Arbitrary<Trip> = fc.record({
  thereMs: slow,
  backMs: fc.oneof({ weight: 5, arbitrary: slow }, { weight: 1, arbitrary: fc.constant(null) }),
});

/** What happens to whoever leads: it is killed, it ends, or it is cut off after answers that took so long. */
const fate = fc.record({
  afterMs: fc.integer({ min: 0, max: 60_000 }),
  what: fc.constantFrom('kill', 'stop', 'cut'),
  backMs: fc.oneof(fc.constant(4900), fc.integer({ min: 0, max: 4900 })),
});

const cutMs = 40_000;
const lost: Trip = { thereMs: 2, backMs: null };

/** Time in which a process may write: from a look at its permission on, for as long as one write may take. */
interface Permission {
  readonly identity: string;
  readonly from: number;
  readonly to: number;
}

/** Processes that come and go in two places, over one Lease. */
class Election {
  readonly clock = new FakeClock(undefined, 1);
  readonly api = new LeaseApi(this.clock);
  permissions: Permission[] = [];
  readonly #trips: Trip[];
  readonly #places: (LeaderElection | null)[] = [null, null];
  readonly #identities = ['', ''];
  #born = 0;
  readonly #killed = new Set<string>();
  /** The next trips of those that are cut off. */
  readonly #cut = new Map<string, Trip[]>();
  readonly #stopped = new Set<string>();

  constructor(trips: readonly Trip[]) {
    this.#trips = [...trips];
  }

  begin(place: number): void {
    const identity = `process ${(this.#born += 1)}`;
    const election = new LeaderElection({
      client: this.api.connect(
        () => this.#nextTrip(identity),
        () => this.#killed.has(identity),
      ),
      clock: this.clock,
      random: () => 0.5,
      lease: { namespace: 'x', name: 'y' },
      identity,
      onElected: () => undefined,
      onLost: () => undefined,
      onLeader: () => undefined,
      onProblem: () => undefined,
    });
    this.#places[place] = election;
    this.#identities[place] = identity;
    election.start();
  }

  /** Its requests may still arrive. */
  kill(place: number): void {
    this.#killed.add(this.#identities[place] ?? '');
    this.begin(place);
  }

  /** It ends when its writes have ended. */
  async stop(place: number): Promise<void> {
    const election = this.#places[place];
    const stopped = this.#identities[place] ?? '';
    this.#stopped.add(stopped);
    const now = this.clock.now();
    this.permissions = this.permissions.map(({ identity, from, to }) => {
      return { identity, from, to: identity === stopped ? Math.min(to, now) : to };
    });
    void election?.stop();
    await this.pass(1000);
    this.begin(place);
  }

  /** Its last answers come late, then none does for a while. */
  async cut(place: number, backMs: number): Promise<void> {
    const identity = this.#identities[place] ?? '';
    const late = { thereMs: 2, backMs };
    this.#cut.set(identity, [late, late]);
    await this.pass(cutMs);
    this.#cut.delete(identity);
  }

  /** Who leads, by its place; the first where nobody does. */
  get leader(): number {
    return Math.max(
      0,
      this.#places.findIndex((election) => (election?.writeMs ?? 0) > 0),
    );
  }

  #nextTrip(identity: string): Trip {
    const cut = this.#cut.get(identity);
    if (cut !== undefined) return cut.shift() ?? lost;
    return this.#trips.shift() ?? quick;
  }

  /** Lets time pass, and looks all the while who may write. */
  async pass(ms: number): Promise<void> {
    const until = this.clock.now() + ms;
    while (this.clock.now() < until) {
      await this.clock.advance(Math.min(pollMs, until - this.clock.now()));
      for (const [place, election] of this.#places.entries()) this.#sync(place, election);
    }
  }

  get leaders(): number {
    return this.#places.filter((election) => (election?.writeMs ?? 0) > 0).length;
  }

  #sync(place: number, election: LeaderElection | null): void {
    const identity = this.#identities[place] ?? '';
    const writeMs = election?.writeMs ?? 0;
    if (writeMs === 0 || this.#stopped.has(identity)) return;
    const from = this.clock.now();
    this.permissions.push({ identity, from, to: from + writeMs });
  }

  findConflicts(): string[] {
    return this.permissions.flatMap((one, index) => {
      const other = this.permissions
        .slice(Math.max(0, index - 100), index)
        .find(({ identity, to }) => identity !== one.identity && to > one.from);
      return other === undefined
        ? []
        : [`${other.identity} of ${other.from} to ${other.to}, ${one.identity} of ${one.from}`];
    });
  }
}

test('no two processes may write at once, whatever is late, lost or killed; in the end one leads', async () => {
  let led = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.array(trip, { maxLength: 80 }),
      fc.array(fate, { maxLength: 6 }),
      async (trips, fates) => {
        const election = new Election(trips);
        election.begin(0);
        election.begin(1);
        for (const { afterMs, what, backMs } of fates) {
          await election.pass(afterMs);
          const { leader } = election;
          if (what === 'kill') election.kill(leader);
          if (what === 'stop') await election.stop(leader);
          if (what === 'cut') await election.cut(leader, backMs);
        }
        await election.pass(60_000);
        led += election.permissions.length;
        expect(election.findConflicts()).toEqual([]);
        for (let tries = 0; tries < 60 && election.leaders === 0; tries += 1) await election.pass(10_000);
        expect(election.leaders).toBe(1);
      },
    ),
    { numRuns: 150 },
  );
  expect(led).toBeGreaterThan(5000);
});
