import { makeFolder } from '../../../support/network/own-folder.ts';
import { makeIdentity, LocalApiservers } from './local-apiservers.ts';
import { type Server, createServer } from 'node:net';
import { afterEach, test, expect } from '@jest/globals';
import { type Clock, systemClock, sleep } from '../../../../lib/clock.ts';
import type { Endpoint } from '../../../../lib/net.ts';
import { type HeldConnection, type PingListener, ProbeBudget } from '../../../../agent/health/apiserver.ts';
import { findAuthority } from '../../../../lib/files.ts';
import { createApiserver } from '../../../../agent/health/connection.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { join } from 'node:path';
import { Pinger } from '../../../../agent/health/prober.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { advanceUntil } from '../../advance-until.ts';

/** No measurement, but the end of a question that hangs. */
const limitMs = 60_000;

const folder = makeFolder('probe');
const own = makeIdentity(folder, 'tls');
const { key, certificate } = own;
const stranger = makeIdentity(folder, 'stranger').certificate;

const apiservers = new LocalApiservers();
const listen = (server: Server) => apiservers.listen(server);
const answer = (status: number, body?: string) => apiservers.answer(own, status, body);

afterEach(() => {
  apiservers.close();
});

/** What differs from test to test. */
interface HoldOptions {
  /** The CA's file; none unless given. */
  readonly authority?: string;
  readonly onClose?: () => undefined;
  readonly clock?: Clock;
}

function hold(
  endpoint: Endpoint,
  { authority = '', onClose = () => undefined, clock = systemClock }: HoldOptions = {},
): HeldConnection {
  const findGiven = () => (authority === '' ? null : findAuthority(authority));
  const held = createApiserver({ clock, findAuthority: findGiven }).hold(endpoint, onClose);
  apiservers.atEnd(() => {
    held.close();
  });
  return held;
}

const apiserver = createApiserver({ clock: systemClock, findAuthority: () => null });

test('a connect to a listener is open, and to none refused', async () => {
  const server = createServer();
  const endpoint = await listen(server);
  expect(await apiserver.connect(endpoint, limitMs)).toEqual({ kind: 'open' });
  server.close();
  expect(await apiserver.connect(endpoint, limitMs)).toEqual({ kind: 'refused' });
});

test('a drain check finds who accepts every port admitting; where such ports are denied, that is told once', async () => {
  const endpoint = await listen(createServer());
  let denied = 0;
  const checking = createApiserver({
    clock: systemClock,
    findAuthority: () => null,
    onNoDrainCheck: () => {
      denied += 1;
    },
  });
  const outcomes = [
    await checking.checkDrain(endpoint, limitMs),
    await checking.checkDrain(endpoint, limitMs),
  ];
  const isRoot = process.getuid?.() === 0;
  expect({ outcomes, denied }).toEqual(
    isRoot
      ? { outcomes: ['admitting', 'admitting'], denied: 0 }
      : { outcomes: ['unknown', 'unknown'], denied: 1 },
  );
});

test('a drain check of who refuses every port says nothing', async () => {
  const server = createServer();
  const endpoint = await listen(server);
  server.close();
  expect(await apiserver.checkDrain(endpoint, limitMs)).toBe('unknown');
});

test('a connect that the system refuses at once names the reason', async () => {
  // The kernel sends nothing to the broadcast address of loopback.
  const outcome = await apiserver.connect({ family: 'ipv4', address: '255.255.255.255', port: 1 }, limitMs);
  expect(outcome).toMatchObject({ kind: 'unreachable', code: expect.stringMatching(/^E[A-Z]+$/) });
});

test('questions share one connection, which stays up between them', async () => {
  const answering = await answer(200);
  const { endpoint } = answering;
  const held = hold(endpoint);
  expect(held.isOpen).toBe(false);
  for (let question = 0; question < 3; question += 1)
    expect(await held.ask(limitMs)).toEqual({ kind: 'ready' });
  expect(held.isOpen).toBe(true);
  expect(answering.connections).toBe(1);
});

test.each([401, 403])('%i is ready, and says that only the process is known to live', async (status) => {
  const { endpoint } = await answer(status);
  expect(await hold(endpoint, { authority: certificate }).ask(limitMs)).toEqual({
    kind: 'ready',
    livenessOnly: `/readyz answers ${status} without credentials, and vipnat has none`,
  });
});

test('500 is failing, with the checks that fail, and nothing else of what a stranger sends', async () => {
  const body =
    '[+]ping ok\n[-]shutdown failed: reason withheld\n[-]etcd failed: reason withheld\n\u001b[31mevil\n';
  const { endpoint } = await answer(500, body);
  expect(await hold(endpoint).ask(limitMs)).toEqual({
    kind: 'failing',
    reason: '/readyz answers 500: [-]shutdown failed, [-]etcd failed',
    cause: 'shutdown',
  });
});

test('500 without a shutdown may be the affair of all of them', async () => {
  const { endpoint } = await answer(500, '[+]ping ok\n[-]etcd failed: reason withheld\n');
  expect(await hold(endpoint).ask(limitMs)).toMatchObject({ kind: 'failing', cause: 'other' });
});

test('the end of the process on the other side is told at once, our own end of it is not', async () => {
  const { endpoint, server } = await answer(200);
  let closes = 0;
  const held = hold(endpoint, { onClose: () => void (closes += 1) });
  await held.ask(limitMs);
  server.closeAllConnections();
  while (closes === 0) await new Promise((resolve) => setTimeout(resolve, 1));
  expect(held.isOpen).toBe(false);
  expect(await held.ask(limitMs)).toEqual({ kind: 'ready' });
  held.close();
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(closes).toBe(1);
});

test('who accepts and never answers is silent, and is asked on a new connection next time', async () => {
  let connections = 0;
  const endpoint = await listen(createServer(() => void (connections += 1)));
  const clock = new FakeClock();
  const held = hold(endpoint, { clock });
  for (const count of [1, 2]) {
    const answer = held.ask(100);
    while (connections < count) await sleep(systemClock, 1);
    await clock.advance(100);
    expect(await answer).toEqual({ kind: 'silent' });
  }
  expect(connections).toBe(2);
});

test('an answer that waits while this process does not run is no silence', async () => {
  const endpoint = await listen(createServer());
  const connecting = apiserver.connect(endpoint, 50);
  const blockedUntil = performance.now() + 200;
  // Nothing else runs meanwhile, as on a machine that is overloaded.
  while (performance.now() < blockedUntil);
  expect(await connecting).toEqual({ kind: 'open' });
});

test('who hangs up during the handshake has not answered', async () => {
  const endpoint = await listen(createServer((socket) => socket.destroy()));
  expect(await hold(endpoint).ask(limitMs)).toEqual({ kind: 'closed' });
});

test('an apiserver is verified by the CA that is given, whatever name its certificate has', async () => {
  const { endpoint } = await answer(200);
  expect(await hold(endpoint, { authority: certificate }).ask(limitMs)).toEqual({ kind: 'ready' });
});

test('a stranger with another CA is failing, and the CA is named', async () => {
  const { endpoint } = await answer(200);
  expect(await hold(endpoint, { authority: stranger }).ask(limitMs)).toEqual({
    kind: 'failing',
    reason: expect.stringContaining(`its certificate is not signed by the CA in ${stranger}`),
    cause: 'distrust',
  });
});

test('a CA file that is missing or holds something else counts as none', () => {
  expect(findAuthority(join(folder, 'missing'))).toBeNull();
  expect(findAuthority(key)).toBeNull();
  expect(findAuthority(certificate)).toMatchObject({ file: certificate });
});

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
