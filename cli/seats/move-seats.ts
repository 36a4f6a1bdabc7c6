import { type Clock, sleep } from '../../lib/control/clock.ts';
import { type Drained } from '../../lib/services/drained.ts';
import { VipnatError } from '../../lib/text/errors.ts';
import { listMisplaced, type SeatsView, type SeatView } from './view-seats.ts';

/** The seats in the API. */
export interface SeatsApi {
  /** Reads all anew. Rejects as listObjects does. */
  view(): Promise<SeatsView>;
  /** Replaces what a pool's annotation says: by what the function makes of it. Rejects with API_ANSWER_UNEXPECTED. */
  drain(pool: string, change: (drained: readonly Drained[]) => readonly Drained[]): Promise<void>;
}

/** What moving takes. */
export interface MoveOptions {
  readonly api: SeatsApi;
  readonly clock: Clock;
  /** Told of each step: a sentence. */
  readonly say: (words: string) => void;
}

/** The controller, a balancer, keepalived and a Lease: two seconds in all where nothing hangs. */
const limitMs = 30_000;
const lookMs = 500;

/**
 * Has a node give up all its seats, and waits until another node has each of them.
 * @throws VipnatError SEATS_NOT_MOVED when that is not so after 30 s; what was asked for stays
 */
export async function drainNode(options: MoveOptions, node: string): Promise<void> {
  const { api, say } = options;
  const { drained, seats: known } = await api.view();
  const given = known.filter(({ holders }) => holders.includes(node)).map(({ seat }) => seat);
  for (const pool of drained.keys()) {
    await api.drain(pool, (before) => [...before.filter((one) => one.node !== node), { node, seat: null }]);
  }
  await waitFor(options, ({ seats }) => {
    const held = seats.filter(({ holders }) => holders.includes(node)).map(({ seat }) => seat);
    if (held.length > 0) return `${node} still holds ${held.join(', ')}`;
    // The next holder says so a moment later than the former one.
    const vacant = seats.filter(({ seat, holders }) => given.includes(seat) && holders.length === 0);
    return vacant.length === 0 ? null : `no node holds ${vacant.map(({ seat }) => seat).join(', ')}`;
  });
  say(`${node} holds no seat, and gets none until: vipnat seats undrain ${node}`);
}

/** Lets a node hold seats again. It takes none from others: see rebalanceSeats. */
export async function undrainNode({ api, say }: MoveOptions, node: string): Promise<void> {
  const { drained } = await api.view();
  for (const pool of drained.keys()) {
    await api.drain(pool, (before) => before.filter((one) => one.node !== node));
  }
  say(`${node} may hold seats again. To move seats to the nodes that come first: vipnat seats rebalance`);
}

/**
 * Moves each seat to the first of its nodes, one seat after the other. Answers how many were moved.
 * @throws VipnatError SEATS_NOT_MOVED when a seat is not there after 30 s; it may be held by whoever has it by then
 */
export async function rebalanceSeats(options: MoveOptions): Promise<number> {
  const misplaced = listMisplaced(await options.api.view());
  for (const seat of misplaced) await moveToFirst(options, seat);
  return misplaced.length;
}

async function moveToFirst(
  options: MoveOptions,
  { seat, pool, index, holders, nodes }: SeatView,
): Promise<void> {
  const { api, say } = options;
  const [first = ''] = nodes;
  // Of the others the first one has the highest priority: it is the quickest. Should it fail, they are there.
  const isAdded = (one: Drained) => one.seat === index && holders.includes(one.node);
  await api.drain(pool, (before) => [...before, ...holders.map((node) => ({ node, seat: index }))]);
  try {
    await waitFor(options, (view) => {
      const now = view.seats.find((one) => one.seat === seat)?.holders ?? [];
      return now.join() === first ? null : `${now.join(', ') || 'nobody'} holds ${seat} instead of ${first}`;
    });
  } finally {
    await api.drain(pool, (before) => before.filter((one) => !isAdded(one)));
  }
  say(`${seat} has moved from ${holders.join(', ')} to ${first}`);
}

async function waitFor(
  { api, clock }: MoveOptions,
  judge: (view: SeatsView) => string | null,
): Promise<void> {
  const begun = clock.now();
  for (;;) {
    const problem = judge(await api.view());
    if (problem === null) return;
    if (clock.now() - begun >= limitMs) {
      const next = 'Check that a controller and the balancers run';
      throw new VipnatError('SEATS_NOT_MOVED', `after ${limitMs / 1000} s ${problem}. ${next}`);
    }
    await sleep(clock, lookMs);
  }
}
