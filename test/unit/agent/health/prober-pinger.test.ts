import { type PingListener, ProbeBudget } from '../../../../agent/health/apiserver.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { Pinger } from '../../../../agent/health/prober.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { test, expect } from '@jest/globals';
import { advanceUntil } from '../../advance-until.ts';

/** A connection as the pinger made it, on which a test says what is heard. */
interface Made {
  readonly listener: PingListener;
  readonly atMs: number;
  readonly sentAtMs: number[];
  isClosed: boolean;
}

/** A pinger whose peer's kernel accepts everything, and does nothing by itself. */
class Pinging {
  readonly clock = new FakeClock();
  readonly made: Made[] = [];
  readonly told: string[] = [];
  isAccepting = true;
  isConnected = true;
  readonly pinger: Pinger;

  constructor() {
    this.pinger = new Pinger({
      endpoint: toEndpoint('10.0.0.11:6443'),
      clock: this.clock,
      budget: new ProbeBudget(),
      isAccepting: () => this.isAccepting,
      onEnd: () => this.told.push('ended'),
      onResult: ({ kind }, askedAt) => this.told.push(`${kind} ${askedAt}`),
      apiserver: {
        openPingConnection: (_endpoint, listener) => {
          const made: Made = { listener, atMs: this.clock.now(), sentAtMs: [], isClosed: false };
          this.made.push(made);
          const isConnected = () => this.isConnected;
          return {
            get isConnected() {
              return isConnected();
            },
            send: () => made.sentAtMs.push(this.clock.now()),
            close: () => (made.isClosed = true),
          };
        },
      },
    });
  }

  get sentAtMs(): number[] {
    return this.made.flatMap(({ sentAtMs }) => sentAtMs);
  }

  /** Something is heard on a connection. */
  hear(index: number, isAnswer: boolean): void {
    this.made[index]?.listener.onReceived(isAnswer);
  }

  /** Lets time pass in which each ping is answered at once on one connection. */
  async answer(index: number, ms: number): Promise<void> {
    for (let passed = 0; passed < ms; passed += 10) {
      await this.clock.advance(10);
      this.hear(index, true);
    }
  }
}

test('one that answers is pinged four times a second, on one connection', async () => {
  const world = new Pinging();
  await world.answer(0, 10_000);
  expect(world.made).toHaveLength(1);
  expect(world.sentAtMs).toHaveLength(40);
  expect(world.told).toEqual([]);
});

test('one that falls silent is told after 2.5 s, with the time of the first ping without an answer', async () => {
  const world = new Pinging();
  await world.answer(0, 1100);
  await world.clock.advance(149);
  expect(world.sentAtMs.at(-1)).toBe(1000);
  await world.clock.advance(2500);
  expect(world.told).toEqual([]);
  await world.clock.advance(1);
  expect(world.told).toEqual(['frozen 1250']);
  expect(world.made.map(({ isClosed }) => isClosed)).toEqual([true, true]);
});

test('it is told again while that lasts, and the first sign of life ends it', async () => {
  const world = new Pinging();
  await world.clock.advance(20_000);
  expect(world.told.length).toBeGreaterThan(2);
  const findOpen = () => world.made.findIndex(({ isClosed }) => !isClosed);
  await advanceUntil(world.clock, 'a connection is open', () => findOpen() !== -1);
  const [open, { length }] = [findOpen(), world.told];
  world.hear(open, false);
  expect(world.told.slice(length)).toEqual([`alive ${world.clock.now()}`]);
  world.hear(open, false);
  expect(world.told.slice(length + 1)).toEqual([]);
});

test('a connection that is lost is replaced by one whose handshake is answered, and nobody is frozen', async () => {
  const world = new Pinging();
  await world.answer(0, 1000);
  await world.clock.advance(500);
  expect(world.made).toHaveLength(2);
  world.hear(1, false);
  expect(world.made.map(({ isClosed }) => isClosed)).toEqual([true, false]);
  await world.answer(1, 5000);
  expect(world.made).toHaveLength(2);
  expect(world.told).toEqual([]);
});

test('a second connection that is answered after the first one is closed before the next ping', async () => {
  const world = new Pinging();
  await world.answer(0, 1000);
  await world.clock.advance(500);
  world.hear(0, true);
  world.hear(1, false);
  expect(world.made.map(({ isClosed }) => isClosed)).toEqual([false, false]);
  await world.answer(0, 5000);
  expect(world.made.map(({ isClosed }) => isClosed)).toEqual([false, true]);
});

test('silence counts from the last sign of life: an answer to a question, too', async () => {
  const world = new Pinging();
  await world.answer(0, 1000);
  for (let turn = 0; turn < 10; turn += 1) {
    await world.clock.advance(2000);
    world.pinger.noteAnswer();
  }
  expect(world.told).toEqual([]);
});

test('a second connection that TCP has not made is no evidence', async () => {
  const world = new Pinging();
  await world.answer(0, 1000);
  world.isConnected = false;
  await world.clock.advance(10_000);
  expect(world.told).toEqual([]);
});

test('time in which this process does not run is one tick', async () => {
  const world = new Pinging();
  await world.answer(0, 1000);
  await world.clock.advance(1500);
  for (const ms of [60_000, 5000]) {
    world.clock.stall(ms);
    await world.clock.advance(300);
  }
  expect(world.told).toEqual([]);
});

test.each([
  ['the peer closes', 0, ['ended']],
  ['it closed while this process did not run, with an answer that waited', 60_000, []],
])('a connection that %s', async (_, stallMs, told) => {
  const world = new Pinging();
  await world.answer(0, 3000);
  await world.clock.advance(250);
  expect(world.sentAtMs.at(-1)).toBe(3250);
  world.clock.stall(stallMs);
  world.hear(0, true);
  world.made[0]?.listener.onEnd();
  expect(world.told).toEqual(told);
});

test('who accepts no connection is not pinged', async () => {
  const world = new Pinging();
  world.isAccepting = false;
  await world.clock.advance(10_000);
  expect(world.made).toEqual([]);
});

test('who closes each connection costs one in two seconds, and who is slow as well', async () => {
  const closing = new Pinging();
  const slow = new Pinging();
  for (let passed = 0; passed < 60_000; passed += 100) {
    await closing.clock.advance(100);
    for (const { listener, isClosed } of closing.made) if (!isClosed) listener.onEnd();
    await slow.clock.advance(100);
    if (passed % 400 === 0) for (const { listener } of slow.made) listener.onReceived(true);
  }
  expect(closing.made.length).toBeLessThanOrEqual(31);
  expect(slow.made.length).toBeLessThanOrEqual(31);
  expect([...closing.told, ...slow.told]).toEqual([]);
});

test('one that is stopped leaves nothing behind', async () => {
  const world = new Pinging();
  await world.clock.advance(1000);
  world.pinger.stop();
  expect(world.made.map(({ isClosed }) => isClosed)).toEqual([true, true]);
  expect(world.clock.pending).toBe(0);
});
