import { describe, expect, test } from '@jest/globals';
import { drainNode, rebalanceSeats, undrainNode } from '../../../../cli/seats/move-seats.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { SeatsWorld } from '../../../support/fakes/seats-api.ts';

const orders = [
  ['w1', 'w2', 'w3'],
  ['w2', 'w3', 'w1'],
  ['w3', 'w1', 'w2'],
];

function start(holders: readonly string[]) {
  const api = new SeatsWorld(orders, holders);
  const clock = new FakeClock();
  const said: string[] = [];
  return { api, clock, said, options: { api, clock, say: (words: string) => said.push(words) } };
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
    expect(api.history.at(-1)).toEqual([]);
    expect(api.holders).toEqual(['w2', 'w2', 'w3']);
  });

  test('go to the first of their nodes, one after the other, and nothing stays of it', async () => {
    const { api, clock, said, options } = start(['w2', 'w2', 'w2']);
    const moved = rebalanceSeats(options);
    await clock.advance(5000);
    expect(await moved).toBe(2);
    expect(api.holders).toEqual(['w1', 'w2', 'w3']);
    expect(api.history).toEqual([[{ node: 'w2', seat: 0 }], [], [{ node: 'w2', seat: 2 }], []]);
    expect(said).toEqual(['default/0 has moved from w2 to w1', 'default/2 has moved from w2 to w3']);
    expect(await rebalanceSeats(options)).toBe(0);
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
