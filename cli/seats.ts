import { type Clock, sleep } from '../lib/clock.ts';
import { RoutedClient } from '../lib/kubernetes/writes.ts';
import { createLister } from '../lib/kubernetes/list-watch.ts';
import { addressPools, virtualIps, poolAnnotations } from '../lib/api/vipnat.ts';
import type { ServiceObjects } from './services/view.ts';
import {
  toLeaseResource,
  readDrained,
  formatDrained,
  type Drained,
  type LeaseReport,
  readReports,
} from '../lib/api/node.ts';
import { type ErrorCode, VipnatError } from '../lib/errors.ts';
import { suggest } from '../lib/text.ts';

const apiLimitMs = 5000;

/** Of several writers each has its turn. */
const maxTries = 5;

/** The seats of a cluster, by its API. Each call asks it again. In the namespace are the Leases of balancers. */
export function createSeatsApi(
  route: Parameters<typeof createLister>[0],
  clock: Clock,
  namespace: string,
): SeatsApi {
  const { signal } = new AbortController();
  const client = new RoutedClient(route, clock, signal);
  const list = createLister(route, clock, signal);
  return {
    async view() {
      const objects = {
        pools: await list(addressPools),
        virtualIps: await list(virtualIps),
        leases: await list(toLeaseResource(namespace)),
      };
      return viewSeats(objects, clock.date().getTime());
    },
    async drain(name, change) {
      let [detail, code]: [string, ErrorCode] = ['', 'API_ANSWER_UNEXPECTED'];
      for (let tries = 0; tries < maxTries; tries += 1) {
        const pool = (await list(addressPools)).find(({ metadata }) => metadata.name === name);
        if (pool === undefined) return;
        const before = readDrained(pool);
        const text = formatDrained(change(before));
        if (text === formatDrained(before)) return;
        const { resourceVersion } = pool.metadata;
        const metadata = { resourceVersion, annotations: { [poolAnnotations.drained]: text } };
        const target = { title: `changing AddressPool ${name}`, path: `${addressPools.path}/${name}` };
        const write = { ...target, method: 'PATCH', body: { metadata } } as const;
        const answer = await client.write(write, apiLimitMs);
        if (answer.outcome === 'taken') return;
        detail = answer.detail;
        if (answer.outcome === 'forbidden') code = 'API_FORBIDDEN';
        if (answer.outcome !== 'conflict') break;
      }
      throw new VipnatError(code, detail);
    },
  };
}

/** The seats in the API. */
export interface SeatsApi {
  /** Reads all again. Rejects as listObjects does. */
  view(): Promise<SeatsView>;
  /** Replaces what a pool's annotation says: by what the function makes of it. Rejects with API_ANSWER_UNEXPECTED. */
  drain(pool: string, change: (drained: readonly Drained[]) => readonly Drained[]): Promise<void>;
}

/** What moving takes. */
export interface MoveOptions {
  readonly api: SeatsApi;
  readonly clock: Clock;
  /** Receives each step: a sentence. */
  readonly print: (detail: string) => void;
}

/** The controller, a balancer, keepalived and a Lease: two seconds in all where nothing hangs. */
const moveLimitMs = 30_000;
const pollMs = 500;

/**
 * Has a node give up all its seats, and waits until another node has each of them.
 * @throws VipnatError NODE_NOT_FOUND where nobody knows the node, SEATS_NOT_MOVED when that is not so after 30 s; what was asked for
 * stays
 */
export async function drainNode(options: MoveOptions, node: string): Promise<void> {
  const { api, print } = options;
  const { drained, seats: known } = await findNode(api, node);
  const given = known.filter(({ seatHolders }) => seatHolders.includes(node)).map(({ seat }) => seat);
  for (const pool of drained.keys())
    await api.drain(pool, (before) => [...before.filter((one) => one.node !== node), { node, seat: null }]);
  await waitFor(options, ({ seats }) => {
    const held = seats.filter(({ seatHolders }) => seatHolders.includes(node)).map(({ seat }) => seat);
    if (held.length > 0) return `${node} still holds ${held.join(', ')}`;
    // The next seat holder says so a moment later than the former one.
    const vacant = seats.filter(({ seat, seatHolders }) => given.includes(seat) && seatHolders.length === 0);
    return vacant.length === 0 ? null : `no node holds ${vacant.map(({ seat }) => seat).join(', ')}`;
  });
  print(`${node} holds no seat, and gets none until: vipnat seats undrain ${node}`);
}

/** What the API has of seats, where it knows a node: by the node's balancer, a seat or a drain. A drain of nobody always succeeds. */
async function findNode(api: SeatsApi, node: string): Promise<SeatsView> {
  const view = await api.view();
  const { seats, nodes, drained } = view;
  if (drained.size === 0)
    throw new VipnatError('NODE_NOT_FOUND', 'there is no AddressPool, so no node has a seat');
  const known = [
    ...nodes.map((one) => one.node),
    ...seats.flatMap((one) => one.nodes),
    ...[...drained.values()].flat().map((one) => one.node),
  ];
  if (known.includes(node)) return view;
  const hint = suggest(node, known, 'To list the nodes: vipnat seats');
  throw new VipnatError('NODE_NOT_FOUND', `no balancer and no pool knows a node ${node}. ${hint}`);
}

/** Lets a node hold seats again. It takes none from other nodes: see rebalanceSeats. Rejects with NODE_NOT_FOUND as drainNode. */
export async function undrainNode({ api, print }: MoveOptions, node: string): Promise<void> {
  const { drained } = await findNode(api, node);
  for (const pool of drained.keys())
    await api.drain(pool, (before) => before.filter((one) => one.node !== node));
  print(`${node} may hold seats again. To move seats to the nodes that come first: vipnat seats rebalance`);
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

async function moveToFirst(options: MoveOptions, { seat, pool, index, seatHolders, nodes }: SeatView) {
  const { api, print } = options;
  const [first = ''] = nodes;
  // Of the others the first one has the highest priority: it is the quickest. Should it fail, they are there.
  const isAdded = (one: Drained) => one.seat === index && seatHolders.includes(one.node);
  await api.drain(pool, (before) => [...before, ...seatHolders.map((node) => ({ node, seat: index }))]);
  try {
    await waitFor(options, (view) => {
      const now = view.seats.find((one) => one.seat === seat)?.seatHolders ?? [];
      return now.join() === first ? null : `${now.join(', ') || 'nobody'} holds ${seat} instead of ${first}`;
    });
  } finally {
    await api.drain(pool, (before) => before.filter((one) => !isAdded(one)));
  }
  print(`${seat} has moved from ${seatHolders.join(', ')} to ${first}`);
}

async function waitFor({ api, clock }: MoveOptions, judge: (view: SeatsView) => string | null) {
  const begun = clock.now();
  for (;;) {
    const problem = judge(await api.view());
    if (problem === null) return;
    if (clock.now() - begun >= moveLimitMs) {
      const next = 'Check that a controller and the balancers run';
      throw new VipnatError('SEATS_NOT_MOVED', `after ${moveLimitMs / 1000} s ${problem}. ${next}`);
    }
    await sleep(clock, pollMs);
  }
}

/** What the API has of seats. */
export type SeatObjects = Pick<ServiceObjects, 'pools' | 'virtualIps' | 'leases'>;

/** A seat, and who says that it holds it. */
export interface SeatView {
  /** `POOL/INDEX`. */
  readonly seat: string;
  readonly pool: string;
  readonly index: number;
  /** Who has it on `lo` holds the seat. */
  readonly anchor: string;
  readonly vrid: number;
  /** How many addresses Services have there. */
  readonly addresses: number;
  /** The nodes that say so: only those that said it within 15 s, where there is one. More than one for the moment of a move; none where no balancer lives. */
  readonly seatHolders: readonly string[];
  /** Those that may hold it, the one that shall first. */
  readonly nodes: readonly string[];
}

/** All seats of a cluster. */
export interface SeatsView {
  readonly seats: readonly SeatView[];
  /** With a balancer. */
  readonly nodes: readonly LeaseReport[];
  /** By pools' names. */
  readonly drained: ReadonlyMap<string, readonly Drained[]>;
}

/** A balancer renews its Lease every 10 s, and an apiserver answers within seconds. */
const freshMs = 15_000;

/** Who holds what, by what the API has. A node counts as long as its Lease lasts by this host's date. Pure. */
export function viewSeats({ pools, virtualIps, leases }: SeatObjects, nowMs: number): SeatsView {
  const reports = readReports(leases, nowMs);
  const living = reports.filter(({ isLiving }) => isLiving);
  const counts = Map.groupBy(
    virtualIps.filter(({ spec }) => spec.services.length > 0),
    ({ spec }) => `${spec.pool}/${spec.seat}`,
  );
  const seats = pools.flatMap(({ metadata: { name: pool }, status }) =>
    (status?.seats ?? []).map(({ index, anchor, vrid, nodes }) => {
      const seat = `${pool}/${index}`;
      const candidates = living.filter(({ seats: held }) => held.includes(seat));
      const seatHolders = chooseSeatHolders(candidates).map(({ node }) => node);
      return {
        ...{ seat, pool, index, anchor, vrid, nodes, seatHolders },
        addresses: counts.get(seat)?.length ?? 0,
      };
    }),
  );
  return {
    seats: seats.sort((one, other) => one.pool.localeCompare(other.pool) || one.index - other.index),
    nodes: reports,
    drained: new Map(pools.map((pool) => [pool.metadata.name, readDrained(pool)])),
  };
}

/** The word of a node that lost its power lasts as long as its Lease: another node that has taken the seat says so now. */
function chooseSeatHolders(candidates: readonly LeaseReport[]): readonly LeaseReport[] {
  const fresh = candidates.filter(({ msSinceRenewal: ms }) => ms !== null && ms <= freshMs);
  return fresh.length === 0 ? candidates : fresh;
}

/** The seats that another node holds than the first of those that may, although that one could. Pure. */
export function listMisplaced({ seats, nodes }: SeatsView): SeatView[] {
  const able = new Set(nodes.filter(({ mode }) => mode !== 'none').map(({ node }) => node));
  return seats.filter(
    ({ seatHolders: [seatHolder, ...others], nodes: [first = ''] }) =>
      seatHolder !== undefined && others.length === 0 && seatHolder !== first && able.has(first),
  );
}
