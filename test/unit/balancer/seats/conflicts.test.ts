import type { PlacedAddress } from '../../../../balancer/seats/plan.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { AddressConflicts } from '../../../../balancer/seats/conflicts.ts';
import { describe, test, expect } from '@jest/globals';

const place = (text: string): PlacedAddress => ({ address: { family: 'ipv4', text }, device: 'eth0' });

/** A network on which hosts have addresses. */
function startAsking() {
  const clock = new FakeClock();
  const macs = new Map<string, string>();
  const asked: string[][] = [];
  const told: string[] = [];
  const unannounced = new AddressConflicts(
    (questions) => {
      asked.push(questions.map(({ address }) => address));
      return Promise.resolve(macs);
    },
    clock,
    (address, mac) => told.push(`${address} ${mac ?? 'free'}`),
  );
  return { clock, macs, asked, told, unannounced };
}

describe('an address that this node would be the first one to hold', () => {
  test('is held once it was asked for, and nobody has it', async () => {
    const { unannounced, asked, told } = startAsking();
    const one = place('10.0.9.20');
    expect(unannounced.mayHold(one, true)).toBe(false);
    await unannounced.ask([one]);
    expect(unannounced.mayHold(one, true)).toBe(true);
    await unannounced.ask([one]);
    expect({ asked, told }).toEqual({ asked: [['10.0.9.20']], told: [] });
  });

  test('is asked for again when it comes a second time', async () => {
    const { unannounced, asked } = startAsking();
    await unannounced.ask([place('10.0.9.20')]);
    await unannounced.ask([]);
    expect(unannounced.mayHold(place('10.0.9.20'), true)).toBe(false);
    await unannounced.ask([place('10.0.9.20')]);
    expect(asked).toHaveLength(2);
  });

  test('that another host has is not held, and asked for until two answers in a row are missing', async () => {
    const { unannounced, clock, macs, asked, told } = startAsking();
    const one = place('10.0.9.20');
    macs.set('10.0.9.20', '02:00:00:00:00:01');
    await unannounced.ask([one]);
    expect([unannounced.mayHold(one, true), unannounced.mayHold(one, false)]).toEqual([false, false]);
    expect(unannounced.used).toEqual(['10.0.9.20']);
    macs.clear();
    // Nobody wants it any more: what is told has to end all the same.
    for (let read = 0; read < 130; read += 1) {
      await clock.advance(500);
      await unannounced.ask([]);
    }
    expect(asked).toHaveLength(3);
    expect(told).toEqual(['10.0.9.20 02:00:00:00:00:01', '10.0.9.20 free']);
    expect(unannounced.used).toEqual([]);
    expect(unannounced.mayHold(one, false)).toBe(true);
  });

  test('that answers again after one silence stays in use', async () => {
    const { unannounced, clock, macs, told } = startAsking();
    macs.set('10.0.9.20', '02:00:00:00:00:01');
    await unannounced.ask([place('10.0.9.20')]);
    for (const isThere of [false, true, false, true]) {
      if (isThere) macs.set('10.0.9.20', '02:00:00:00:00:01');
      else macs.clear();
      await clock.advance(30_000);
      await unannounced.ask([]);
    }
    expect(unannounced.used).toEqual(['10.0.9.20']);
    expect(told).toHaveLength(1);
  });

  test('waits for its turn where there are many', async () => {
    const { unannounced, asked } = startAsking();
    const many = Array.from({ length: 300 }, (_, at) =>
      place(`10.0.${9 + Math.floor(at / 200)}.${at % 200}`),
    );
    expect(await unannounced.ask(many)).toBe(true);
    expect(await unannounced.ask(many)).toBe(true);
    expect(await unannounced.ask(many)).toBe(false);
    expect(asked.map(({ length }) => length)).toEqual([128, 128, 44]);
    expect(many.every((one) => unannounced.mayHold(one, true))).toBe(true);
  });
});

describe('an address that this node holds', () => {
  const witnesses = { anchor: '10.0.9.10', shared: undefined as string | undefined };
  const hold = (text: string) => ({ ...place(text), ...witnesses });
  const mac = '02:00:00:00:00:01';

  /** Looks twice a second for so long. */
  const read = async (
    { clock, unannounced }: Pick<ReturnType<typeof startAsking>, 'clock' | 'unannounced'>,
    addresses: readonly string[],
    ms: number,
  ) => {
    for (let passed = 0; passed < ms; passed += 500) {
      await unannounced.ask([], addresses.map(hold));
      await clock.advance(500);
    }
  };

  test('and another host has too, is found within a minute and three answers', async () => {
    const asking = startAsking();
    await read(asking, ['10.0.9.20'], 90_000);
    expect(asking.asked).toEqual([['10.0.9.20', '10.0.9.10']]);
    asking.macs.set('10.0.9.20', mac);
    await read(asking, ['10.0.9.20'], 49_000);
    expect(asking.told).toEqual([]);
    await read(asking, ['10.0.9.20'], 10_000);
    expect(asking.told).toEqual([`10.0.9.20 ${mac}`]);
    expect(asking.unannounced.used).toEqual(['10.0.9.20']);
  });

  test('is not given up for an answer, which may be of a node of ours whose anchor does not answer: the controller knows them all', async () => {
    const asking = startAsking();
    asking.macs.set('10.0.9.20', mac);
    await read(asking, ['10.0.9.20'], 120_000);
    expect(asking.unannounced.used).toEqual(['10.0.9.20']);
    expect(asking.unannounced.mayHold(place('10.0.9.20'), false)).toBe(true);
  });

  test('stays after one odd answer, and after two', async () => {
    const asking = startAsking();
    for (const answers of [1, 2, 1]) {
      await read(asking, ['10.0.9.20'], 55_000);
      asking.macs.set('10.0.9.20', mac);
      await read(asking, ['10.0.9.20'], answers * 10_000 - 1000);
      asking.macs.clear();
    }
    expect(asking.asked.length).toBeGreaterThan(4);
    expect(asking.told).toEqual([]);
  });

  test('stays where a node of ours answers: it has a witness, too', async () => {
    const asking = startAsking();
    for (const address of ['10.0.9.10', '10.0.9.20']) asking.macs.set(address, mac);
    await read(asking, ['10.0.9.20'], 300_000);
    expect(asking.told).toEqual([]);
  });

  test('stays where many nodes of ours answer, each time another one first, and their ClusterIP is another by then', async () => {
    const asking = startAsking();
    witnesses.shared = '10.96.0.10';
    await read(asking, ['10.0.9.20'], 30_000);
    witnesses.shared = '10.96.0.1';
    for (let round = 0; round < 30; round += 1) {
      asking.macs.set('10.0.9.20', `02:00:00:00:00:0${round % 3}`);
      asking.macs.set('10.96.0.1', `02:00:00:00:00:0${(round + 1) % 3}`);
      await read(asking, ['10.0.9.20'], 10_000);
    }
    witnesses.shared = undefined;
    expect(asking.told).toEqual([]);
    expect(asking.asked.at(-1)).toEqual(['10.0.9.20', '10.0.9.10', '10.96.0.1']);
  });

  test('is asked for in its turn: of 1,000 at most 64 in ten seconds, and each once in three minutes', async () => {
    const asking = startAsking();
    const many = Array.from({ length: 1000 }, (_, at) => `10.1.${Math.floor(at / 200)}.${at % 200}`);
    await read(asking, many, 60_000);
    expect(asking.asked).toEqual([]);
    await read(asking, many, 180_000);
    expect(asking.asked.length).toBeLessThanOrEqual(18);
    expect(Math.max(...asking.asked.map(({ length }) => length))).toBe(65);
    expect(new Set(asking.asked.flat()).size).toBe(1001);
  });
});
