import { makeFolder } from '../../../support/network/own-folder.ts';
import { makeIdentity, LocalApiservers } from './local-apiservers.ts';
import { type Server, createServer } from 'node:net';
import { afterEach, describe, test, expect } from '@jest/globals';
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
import { type Steps, testSteps, toChecks } from '../../steps.ts';

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
  expect([held.isOpen, answering.connections]).toEqual([true, 1]);
});

const [pingLine, etcdLine] = ['[+]ping ok\n', '[-]etcd failed: reason withheld\n'];
const evilBody = `${pingLine}[-]shutdown failed: reason withheld\n${etcdLine}\u001b[31mevil\n`;
const failing = (checks: string) => ({ kind: 'failing', reason: `/readyz answers 500: ${checks}` });
const lives = (status: number) => ({
  kind: 'ready',
  livenessOnly: `/readyz answers ${status} without credentials, and vipnat has none`,
});
const distrusted: unknown = expect.stringContaining(`its certificate is not signed by the CA in ${stranger}`);

test.each<[string, string, Parameters<typeof answer>, object]>([
  ['401 is ready, and says that only the process is known to live', certificate, [401], lives(401)],
  ['403 is ready, and says that only the process is known to live', certificate, [403], lives(403)],
  [
    '500 is failing, with the checks that fail, and nothing else of what a stranger sends',
    '',
    [500, evilBody],
    { ...failing('[-]shutdown failed, [-]etcd failed'), cause: 'shutdown' },
  ],
  [
    '500 without a shutdown may be the affair of all of them',
    '',
    [500, pingLine + etcdLine],
    { ...failing('[-]etcd failed'), cause: 'other' },
  ],
  ['one is verified by the CA that is given, whatever name it has', certificate, [200], { kind: 'ready' }],
  ['a stranger of another CA', stranger, [200], { kind: 'failing', reason: distrusted, cause: 'distrust' }],
])('%s', async (_, authority, answered, outcome) => {
  const { endpoint } = await answer(...answered);
  expect(await hold(endpoint, { authority }).ask(limitMs)).toEqual(outcome);
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

test('a CA file that is missing or holds something else counts as none', () => {
  expect([findAuthority(join(folder, 'missing')), findAuthority(key)]).toEqual([null, null]);
  expect(findAuthority(certificate)).toMatchObject({ file: certificate });
});

/** A connection as the pinger made it, on which a test says what is heard. */
interface Made {
  readonly listener: PingListener;
  readonly sentAtMs: number[];
  isClosed: boolean;
}

/** A pinger whose peer's kernel accepts everything, and does nothing by itself. Connections are numbered from 0. */
function startPinger(): Steps {
  const clock = new FakeClock();
  const made: Made[] = [];
  let told: string[] = [];
  const peer = { isAccepting: true, isConnected: true };
  const pinger = new Pinger({
    endpoint: toEndpoint('10.0.0.11:6443'),
    clock,
    budget: new ProbeBudget(),
    isAccepting: () => peer.isAccepting,
    onEnd: () => told.push('ended'),
    onResult: ({ kind }, askedAt) => told.push(`${kind} ${askedAt}`),
    apiserver: {
      openPingConnection: (_endpoint, listener) => {
        const one: Made = { listener, sentAtMs: [], isClosed: false };
        made.push(one);
        return {
          get isConnected() {
            return peer.isConnected;
          },
          send: () => one.sentAtMs.push(clock.now()),
          close: () => (one.isClosed = true),
        };
      },
    },
  });
  const hear = (index: number, isAnswer: boolean) => made[index]?.listener.onReceived(isAnswer);
  const findOpen = () => made.findIndex(({ isClosed }) => !isClosed);
  const listPings = () => made.flatMap(({ sentAtMs }) => sentAtMs);
  return {
    wait: (ms) => clock.advance(Number(ms)),
    stall: (ms) => {
      clock.stall(Number(ms));
    },
    /** `answer 0 1000`: each ping is answered at once on one connection for so long. */
    answer: async (text) => {
      const [index, ms] = text.split(' ').map(Number);
      for (let passed = 0; passed < (ms ?? 0); passed += 10) {
        await clock.advance(10);
        hear(index ?? 0, true);
      }
    },
    hear: (text) => hear(Number(text[0]), text.endsWith(' answer')),
    /** The peer closes a connection, or each that is open and every one to come for so long. */
    close: (index) => made[Number(index)]?.listener.onEnd(),
    closing: async (ms) => {
      for (let passed = 0; passed < Number(ms); passed += 100) {
        await clock.advance(100);
        for (const { listener, isClosed } of made) if (!isClosed) listener.onEnd();
      }
    },
    slow: async (ms) => {
      for (let passed = 0; passed < Number(ms); passed += 100) {
        await clock.advance(100);
        if (passed % 400 === 0) for (const { listener } of made) listener.onReceived(true);
      }
    },
    refuse: () => (peer.isAccepting = false),
    unmade: () => (peer.isConnected = false),
    note: () => {
      pinger.noteAnswer();
    },
    stop: () => {
      pinger.stop();
    },
    revive: async () => {
      await advanceUntil(clock, 'a connection is open', () => findOpen() !== -1);
      told = [];
      const open = findOpen();
      hear(open, false);
      expect(told).toEqual([`alive ${clock.now()}`]);
      hear(open, false);
      expect(told).toHaveLength(1);
    },
    most: (count) => {
      expect(made.length).toBeLessThanOrEqual(Number(count));
    },
    several: () => {
      expect(told.length).toBeGreaterThan(2);
    },
    ...toChecks({
      pings: (count) => [listPings().length, Number(count)],
      last: (ms) => [listPings().at(-1), Number(ms)],
      told: (text) => [told.join(', '), text],
      made: (text) => [made.map(({ isClosed }) => (isClosed ? 'closed' : 'open')).join(' '), text],
      rests: () => [clock.pending, 0],
    }),
  };
}

describe('pings', () => {
  testSteps(startPinger, {
    'go to one that answers four times a second, on one connection':
      'answer 0 10000; made open; pings 40; told ',
    'tell of one that falls silent after 2.5 s, with the time of the first ping without an answer':
      'answer 0 1100; wait 149; last 1000; wait 2500; told ; wait 1; told frozen 1250; made closed closed',
    'tell of it again while that lasts, and the first sign of life ends it': 'wait 20000; several; revive',
    'find the loss of a connection, replace it by one whose handshake is answered, and call nobody frozen':
      'answer 0 1000; wait 500; made open open; hear 1; made closed open; answer 1 5000; made closed open; told ',
    'close a second connection that is answered after the first one, before the next ping':
      'answer 0 1000; wait 500; hear 0 answer; hear 1; made open open; answer 0 5000; made open closed',
    'count silence from the last sign of life: an answer to a question, too': `answer 0 1000; ${'wait 2000; note; '.repeat(10)}told `,
    'take a second connection that TCP has not made for no evidence':
      'answer 0 1000; unmade; wait 10000; told ',
    'count time in which this process does not run as one tick':
      'answer 0 1000; wait 1500; stall 60000; wait 300; stall 5000; wait 300; told ',
    'end with a connection that the peer closes':
      'answer 0 3000; wait 250; last 3250; hear 0 answer; close 0; told ended',
    'go on after one that was closed while this process did not run, with an answer that waited':
      'answer 0 3000; wait 250; last 3250; stall 60000; hear 0 answer; close 0; told ',
    'go to nobody who accepts no connection': 'refuse; wait 10000; made ',
    'cost who closes each connection one in two seconds': 'closing 60000; most 31; told ',
    'cost who is slow one in two seconds': 'slow 60000; most 31; told ',
    'leave nothing behind once they are stopped': 'wait 1000; stop; made closed closed; rests',
  });
});
