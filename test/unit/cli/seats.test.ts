import { makePool, makeSeat, makeVirtualIp } from '../../support/fakes/seat-objects.ts';
import {
  type SeatObjects,
  type SeatsApi,
  viewSeats,
  drainNode,
  undrainNode,
  rebalanceSeats,
} from '../../../cli/seats.ts';
import {
  type NodeReport,
  type Lease,
  toLeaseName,
  toAnnotations,
  type Drained,
  dropDrained,
} from '../../../lib/api/node.ts';
import { describe, test, expect } from '@jest/globals';
import { formatSeats, formatSeatsJson } from '../../../cli/commands/seats.ts';
import { FakeClock } from '../../support/fakes/clock.ts';

/** When tests are, for Leases. */
const now = Date.parse('2026-01-01T00:00:00Z');

/** A node's Lease, renewed so long ago. */
function makeLease(
  node: string,
  seats: readonly string[],
  { agoMs = 3000, ...parts }: Partial<NodeReport> & { readonly agoMs?: number } = {},
): Lease {
  return {
    metadata: {
      ...{ name: toLeaseName(node), uid: 'u', resourceVersion: '1', generation: 0 },
      annotations: toAnnotations({ node, seats, mode: 'direct', inUse: [], programmed: {}, ...parts }),
    },
    spec: { leaseDurationSeconds: 40, renewTime: new Date(now - agoMs).toISOString() },
  };
}

/**
 * A cluster with one pool, whose controller and balancers do at each look what the annotation asks for: a holder that may not hold a
 * seat gives it up, and at the next look the first of the nodes that may has it.
 */
class SeatsWorld implements SeatsApi {
  readonly nodes: readonly string[];
  readonly holders: string[];
  readonly orders: readonly (readonly string[])[];
  /** What the annotation said, each time it was changed. */
  readonly history: (readonly Drained[])[] = [];
  isStuck = false;
  #drained: readonly Drained[] = [];

  constructor(orders: readonly (readonly string[])[], holders: readonly string[]) {
    this.orders = orders;
    this.holders = [...holders];
    this.nodes = [...new Set(orders.flat())].sort();
  }

  get objects(): SeatObjects {
    const seats = this.orders.map((nodes, index) => makeSeat(index, '10.0.9.10', nodes));
    const leases = this.nodes.map((node) =>
      makeLease(
        node,
        this.holders.flatMap((holder, index) => (holder === node ? [`default/${index}`] : [])),
      ),
    );
    return { pools: [makePool('default', seats)], virtualIps: [], leases };
  }

  view(): Promise<ReturnType<typeof viewSeats>> {
    if (!this.isStuck) this.#move();
    return Promise.resolve(viewSeats(this.objects, now));
  }

  drain(_pool: string, change: (drained: readonly Drained[]) => readonly Drained[]): Promise<void> {
    this.#drained = change(this.#drained);
    this.history.push(this.#drained);
    return Promise.resolve();
  }

  #move(): void {
    for (const [seat, order] of this.orders.entries()) {
      const nodes = dropDrained(order, { drained: this.#drained, seat, isAble: () => true });
      const holder = this.holders[seat] ?? '';
      if (!nodes.includes(holder)) this.holders[seat] = holder === '' ? (nodes[0] ?? '') : '';
    }
  }
}

const nodes = ['w1', 'w2', 'w3', 'w4'];
const pool = makePool('default', [
  makeSeat(0, '10.0.9.10', nodes),
  makeSeat(1, '10.0.9.10', ['w2', 'w1']),
  makeSeat(2, '10.0.9.10', ['w3']),
  makeSeat(10, '10.0.9.10', nodes),
]);
const objects: SeatObjects = {
  pools: [{ ...pool, metadata: { ...pool.metadata, annotations: { 'vipnat.io/drained': 'w4' } } }],
  virtualIps: [
    makeVirtualIp('10.0.9.21', 'default/0'),
    makeVirtualIp('10.0.9.22', 'default/0'),
    makeVirtualIp('10.0.9.23', 'default/0', { services: 0 }),
  ],
  leases: [
    makeLease('w1', ['default/0', 'default/1', 'default/10'], {
      inUse: ['10.0.9.30'],
      unheld: {
        'default/0': '10.0.9.10 is in no subnet of this host (it has eth0)',
        // It may not hold this one now.
        'default/2': '10.0.9.10 is in no subnet of this host (it has eth0)',
      },
    }),
    makeLease('w2', ['default/10']),
    makeLease('w3', ['default/2'], { agoMs: 600_000 }),
    makeLease('w4', [], { mode: 'none' }),
    { metadata: { name: 'vipnat-controller', uid: 'u', resourceVersion: '1', generation: 0 }, spec: {} },
  ],
};

describe('vipnat seats', () => {
  test('says who holds what, who may, and what a person may want to know', () => {
    expect(formatSeats(viewSeats(objects, now))).toBe(`SEAT        HOLDER     ADDRESSES  MAY HOLD IT
default/0   w1                 2  w1, w2, w3, w4
default/1   w1                 0  w2, w1
default/2   nobody             0  w3
default/10  w1 and w2          0  w1, w2, w3, w4

w3 has said nothing for 10m00s
w4 can serve no Service: it holds no seat
another host on the network of w1 answers for 10.0.9.30
w1 cannot hold default/0: 10.0.9.10 is in no subnet of this host (it has eth0)
drained in pool default: w4
default/1: another node comes first. To move them: vipnat seats rebalance
`);
    const none = viewSeats({ pools: [], virtualIps: [], leases: [] }, now);
    expect(formatSeats(none)).toBe('no seat: no AddressPool has one\n');
  });

  test('believes the node that took a seat, and not the one that had it before it lost its power', () => {
    const claim = (agoMs: number) => makeLease('w2', ['default/1'], { agoMs });
    const view = (...leases: SeatObjects['leases']) =>
      viewSeats({ ...objects, leases }, now).seats.find(({ seat }) => seat === 'default/1')?.seatHolders;
    expect(view(makeLease('w1', ['default/1']), claim(20_000))).toEqual(['w1']);
    expect(view(makeLease('w1', ['default/1']), claim(15_000))).toEqual(['w1', 'w2']);
    expect(view(makeLease('w1', []), claim(20_000))).toEqual(['w2']);
  });

  test('says the same to programs', () => {
    expect(JSON.parse(formatSeatsJson(viewSeats(objects, now)))).toMatchObject({
      version: 1,
      seats: [
        { seat: 'default/0', seatHolders: ['w1'], addresses: 2, anchor: '169.254.0.1', vrid: 1, nodes },
        { seat: 'default/1', seatHolders: ['w1'] },
        { seat: 'default/2', seatHolders: [] },
        { seat: 'default/10', seatHolders: ['w1', 'w2'] },
      ],
      nodes: [
        {
          ...{ node: 'w1', mode: 'direct', secondsSinceRenewal: 3, addressesInUse: ['10.0.9.30'] },
          cannotHold: [{ name: 'default/0' }, { name: 'default/2' }],
        },
        { node: 'w2' },
        { node: 'w3', secondsSinceRenewal: 600 },
        { node: 'w4', mode: 'none' },
      ],
      drained: [{ pool: 'default', node: 'w4', seat: null }],
    });
  });
});

const orders = [
  ['w1', 'w2', 'w3'],
  ['w2', 'w3', 'w1'],
  ['w3', 'w1', 'w2'],
];

function start(seatHolders: readonly string[]) {
  const api = new SeatsWorld(orders, seatHolders);
  const clock = new FakeClock();
  const said: string[] = [];
  return { api, clock, said, options: { api, clock, print: (words: string) => said.push(words) } };
}

describe('seats', () => {
  test('leave a node that is drained, and may come back only when it is not', async () => {
    const { api, clock, said, options } = start(['w1', 'w1', 'w3']);
    const drained = drainNode(options, 'w1');
    await clock.advance(1000);
    await drained;
    expect(api.holders).toEqual(['w2', 'w2', 'w3']);
    expect(said).toEqual(['w1 holds no seat, and gets none until: vipnat seats undrain w1']);
    await undrainNode(options, 'w1');
    expect([api.history.at(-1), api.holders]).toEqual([[], ['w2', 'w2', 'w3']]);
  });

  test('go to the first of their nodes, one after the other, and nothing stays of it', async () => {
    const { api, clock, said, options } = start(['w2', 'w2', 'w2']);
    const moved = rebalanceSeats(options);
    await clock.advance(5000);
    expect([await moved, api.holders]).toEqual([2, ['w1', 'w2', 'w3']]);
    expect(api.history).toEqual([[{ node: 'w2', seat: 0 }], [], [{ node: 'w2', seat: 2 }], []]);
    expect(said).toEqual(['default/0 has moved from w2 to w1', 'default/2 has moved from w2 to w3']);
    expect(await rebalanceSeats(options)).toBe(0);
  });

  test.each([
    ['w11', 'no balancer and no pool knows a node w11. Did you mean w1?'],
    ['master-1', 'no balancer and no pool knows a node master-1. To list the nodes: vipnat seats'],
  ])('of %s, which nobody knows, are neither drained nor undrained', async (node, message) => {
    const { api, said, options } = start(['w2', 'w2', 'w3']);
    const refusal = { code: 'NODE_NOT_FOUND', message };
    await expect(drainNode(options, node)).rejects.toMatchObject(refusal);
    await expect(undrainNode(options, node)).rejects.toMatchObject(refusal);
    expect([api.history, said]).toEqual([[], []]);
    // One that left the cluster and is still named in the annotation can be undrained.
    const left = { ...viewSeats(api.objects, now), drained: new Map([['default', [{ node, seat: null }]]]) };
    await undrainNode(
      { ...options, api: { view: () => Promise.resolve(left), drain: api.drain.bind(api) } },
      node,
    );
    expect(said).toHaveLength(1);
    const empty = { seats: [], nodes: [], drained: new Map() };
    const nothing = { view: () => Promise.resolve(empty), drain: api.drain.bind(api) };
    await expect(drainNode({ ...options, api: nothing }, 'w1')).rejects.toMatchObject({
      message: 'there is no AddressPool, so no node has a seat',
    });
  });

  test('that do not move are told, and a rebalance takes its drain back', async () => {
    const { api, clock, options } = start(['w2', 'w2', 'w3']);
    api.isStuck = true;
    const moved = rebalanceSeats(options).catch((error: unknown) => error);
    await clock.advance(40_000);
    expect(await moved).toMatchObject({
      code: 'SEATS_NOT_MOVED',
      message: 'after 30 s w2 holds default/0 instead of w1. Check that a controller and the balancers run',
    });
    expect(api.history.at(-1)).toEqual([]);
    const drained = drainNode(options, 'w2').catch((error: unknown) => error);
    await clock.advance(40_000);
    expect(await drained).toMatchObject({
      message: expect.stringContaining('w2 still holds default/0, default/1'),
    });
    expect(api.history.at(-1)).toEqual([{ node: 'w2', seat: null }]);
  });
});
