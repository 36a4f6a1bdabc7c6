import { makeFolder } from '../../../support/network/own-folder.ts';
import { makeIdentity, LocalApiservers } from './local-apiservers.ts';
import { type Server, createServer } from 'node:net';
import { afterEach, test, expect } from '@jest/globals';
import { type Clock, systemClock, sleep } from '../../../../lib/clock.ts';
import type { Endpoint } from '../../../../lib/net.ts';
import type { HeldConnection } from '../../../../agent/health/apiserver.ts';
import { findAuthority } from '../../../../lib/files.ts';
import { createApiserver } from '../../../../agent/health/connection.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { join } from 'node:path';

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
