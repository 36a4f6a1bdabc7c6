import { makeFolder } from '../../../support/network/own-folder.ts';
import { makeIdentity, LocalApiservers } from './local-apiservers.ts';
import { afterEach, test, expect } from '@jest/globals';
import type { PingConnection } from '../../../../agent/health/apiserver.ts';
import type { Endpoint } from '../../../../lib/net.ts';
import { type Server, createServer as createHttpsServer } from 'node:https';
import { readFileSync } from 'node:fs';
import { createServer, connect } from 'node:net';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { createApiserver, openPingConnection } from '../../../../agent/health/connection.ts';

const folder = makeFolder('ping');
const own = makeIdentity(folder, 'tls');
const apiservers = new LocalApiservers();

afterEach(() => {
  apiservers.close();
});

/** A connection, and what was heard on it. */
interface Heard {
  readonly connection: PingConnection;
  readonly isAnswer: boolean[];
  ends: number;
}

function open(endpoint: Endpoint): Heard {
  const isAnswer: boolean[] = [];
  const connection = openPingConnection(endpoint, {
    onReceived: (heard) => isAnswer.push(heard),
    onEnd: () => {
      heard.ends += 1;
    },
  });
  const heard: Heard = { connection, isAnswer, ends: 0 };
  apiservers.atEnd(() => {
    connection.close();
  });
  return heard;
}

async function waitUntil(isDone: () => boolean): Promise<void> {
  while (!isDone()) await pass(5);
}

const pass = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** An apiserver that notes the requests that come to it. */
async function listen(): Promise<{ server: Server; endpoint: Endpoint; requests: string[] }> {
  const requests: string[] = [];
  const server = createHttpsServer(
    { key: readFileSync(own.key), cert: readFileSync(own.certificate) },
    ({ method, url }, response) => {
      requests.push(`${method} ${url}`);
      response.end();
    },
  );
  return { server, endpoint: await apiservers.listen(server), requests };
}

/** What is between, and keeps what comes back until it is told to let that pass. */
interface Between {
  readonly endpoint: Endpoint;
  readonly kept: (() => void)[];
  readonly letPass: () => void;
}

async function holdBack(endpoint: Endpoint): Promise<Between> {
  const kept: (() => void)[] = [];
  const proxy = createServer((client) => {
    const peer = connect({ host: endpoint.address, port: endpoint.port });
    client.on('error', () => undefined).on('close', () => peer.destroy());
    peer.on('error', () => undefined);
    client.pipe(peer);
    peer.on('data', (bytes) => kept.push(() => client.write(bytes)));
  });
  const letPass = () => {
    for (const pass of kept.splice(0)) pass();
  };
  return { endpoint: await apiservers.listen(proxy), kept, letPass };
}

test('a ping is answered by whatever speaks HTTP, on one connection', async () => {
  const { endpoint, requests } = await listen();
  const { connection, isAnswer } = open(endpoint);
  for (let ping = 1; ping <= 3; ping += 1) {
    connection.send();
    await waitUntil(() => isAnswer.filter(Boolean).length === ping);
  }
  expect(requests).toEqual(['OPTIONS *', 'OPTIONS *', 'OPTIONS *']);
});

test('who accepts and says nothing is connected, and not heard', async () => {
  const heard = open(await apiservers.listen(createServer()));
  heard.connection.send();
  await waitUntil(() => heard.connection.isConnected);
  await pass(200);
  expect(heard).toMatchObject({ isAnswer: [], ends: 0 });
});

test('a handshake that is slow is heard before it is over, and before the answer', async () => {
  const { endpoint } = await listen();
  const between = await holdBack(endpoint);
  const { connection, isAnswer } = open(between.endpoint);
  connection.send();
  await waitUntil(() => between.kept.length > 0);
  between.letPass();
  await waitUntil(() => isAnswer.length > 0);
  expect(isAnswer).not.toContain(true);
  await waitUntil(() => {
    between.letPass();
    return isAnswer.includes(true);
  });
});

test('its end is told once, be it refused or closed later, and not after its own', async () => {
  const { endpoint, server } = await listen();
  const closed = open(endpoint);
  closed.connection.send();
  await waitUntil(() => closed.isAnswer.includes(true));
  const own = open(endpoint);
  own.connection.send();
  await waitUntil(() => own.isAnswer.includes(true));
  own.connection.close();
  server.close();
  server.closeAllConnections();
  await waitUntil(() => closed.ends === 1);
  const refused = open(endpoint);
  await waitUntil(() => refused.ends === 1);
  await pass(50);
  expect([closed.ends, refused.ends, own.ends]).toEqual([1, 1, 0]);
});

test('a question on a new connection has its limit twice: for the handshake and for the answer', async () => {
  const { endpoint } = await listen();
  const between = await holdBack(endpoint);
  const clock = new FakeClock();
  const held = createApiserver({ clock, findAuthority: () => null }).hold(between.endpoint, () => undefined);
  apiservers.atEnd(() => {
    held.close();
  });
  // A round trip of the handshake and one of the answer, each within the limit.
  const first = held.ask(1900);
  await waitUntil(() => between.kept.length > 0);
  await clock.advance(1000);
  await waitUntil(() => {
    if (!held.isOpen) between.letPass();
    return held.isOpen && between.kept.length > 0;
  });
  await clock.advance(1000);
  const passing = setInterval(between.letPass, 1);
  expect(await first).toEqual({ kind: 'ready' });
  clearInterval(passing);
  const second = held.ask(200);
  await clock.advance(200);
  expect(await second).toEqual({ kind: 'silent' });
});
