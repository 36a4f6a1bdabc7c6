import { makeFolder } from '../../../support/network/own-folder.ts';
import { makeIdentity, type Identity, LocalApiservers, type Answering } from './local-apiservers.ts';
import { join } from 'node:path';
import { beforeEach, afterEach, test, expect } from '@jest/globals';
import { writeFileSync, readFileSync, rmSync } from 'node:fs';
import { type Server, createServer } from 'node:https';
import { TLSSocket } from 'node:tls';
import { FakeClock } from '../../../support/fakes/clock.ts';
import type { ApiAccess } from '../../../../lib/kubernetes/route.ts';
import type { HeldConnection, PingConnection } from '../../../../agent/health/apiserver.ts';
import { systemClock } from '../../../../lib/clock.ts';
import { findAuthority } from '../../../../lib/files.ts';
import {
  createCredentialsReader,
  createApiserver,
  openPingConnection,
} from '../../../../agent/health/connection.ts';
import type { Endpoint } from '../../../../lib/net.ts';
import { createServer as createTcpServer, connect } from 'node:net';

/** No measurement, but the end of a question that hangs. */
const limitMs = 60_000;

const folder = makeFolder('credentials');
const [own, stranger, client, nextClient] = ['own', 'stranger', 'client', 'next-client'].map((name) =>
  makeIdentity(folder, name),
) as [Identity, Identity, Identity, Identity];

const renamed = makeIdentity(folder, 'renamed', 'renamed');
const authorityFile = join(folder, 'ca.crt');

beforeEach(() => {
  writeFileSync(authorityFile, [own, renamed].map(({ certificate }) => readFileSync(certificate)).join(''));
});

const apiservers = new LocalApiservers();

afterEach(() => {
  apiservers.close();
});

/** An apiserver without anonymous requests that shuts down: nobody learns that without credentials. What came with each question is noted. */
interface Secretive extends Answering {
  readonly came: string[];
}

async function startSecretive(accepts: (shown: string) => boolean): Promise<Secretive> {
  const came: string[] = [];
  const server: Server = createServer(
    { ...readIdentity(own), requestCert: true, rejectUnauthorized: false },
    ({ headers, socket }, response) => {
      const certificate = socket instanceof TLSSocket ? socket.getPeerX509Certificate() : undefined;
      const shown = headers.authorization ?? certificate?.fingerprint256 ?? '';
      came.push(shown);
      if (accepts(shown)) response.writeHead(500).end('[-]shutdown failed: reason withheld\n');
      else response.writeHead(shown === '' ? 401 : 403).end();
    },
  );
  const counted = { connections: 0, questions: 0 };
  server.on('connection', () => (counted.connections += 1));
  return Object.assign(counted, { came, server, endpoint: await apiservers.listen(server) });
}

function readIdentity({ key, certificate }: Identity): { readonly key: Buffer; readonly cert: Buffer } {
  return { key: readFileSync(key), cert: readFileSync(certificate) };
}

/** Credentials as a kubeconfig has them, which a test may replace, read anew by the clock of the test. */
class Kubeconfig {
  readonly clock = new FakeClock();
  access: Pick<ApiAccess, 'serverName' | 'tls' | 'headers'> = withToken('one');

  hold({ endpoint }: Answering, onClose = (): void => undefined): HeldConnection {
    const { access } = this;
    const defaults = { origin: '/etc/kubeconfig', host: access.serverName, port: 6443, isInCluster: false };
    const held = createApiserver({
      clock: systemClock,
      findAuthority: () => findAuthority(authorityFile),
      readCredentials: createCredentialsReader(
        () => Promise.resolve({ ...defaults, ...this.access }),
        this.clock,
      ),
    }).hold(endpoint, onClose);
    apiservers.atEnd(() => {
      held.close();
    });
    return held;
  }

  /** What was read of it is old from now on. */
  async replace(access: Kubeconfig['access']): Promise<void> {
    this.access = access;
    await this.clock.advance(10_000);
  }
}

/** What comes of so many questions. */
async function askTimes(held: HeldConnection, times: number): Promise<unknown[]> {
  const outcomes = [];
  for (let question = 0; question < times; question += 1) outcomes.push(await held.ask(limitMs));
  return outcomes;
}

function withToken(token: string, serverName = 'kubernetes'): Kubeconfig['access'] {
  return { serverName, tls: {}, headers: { Authorization: `Bearer ${token}` } };
}

function withCertificate(identity: Identity): Kubeconfig['access'] {
  return { serverName: 'kubernetes', tls: readIdentity(identity), headers: {} };
}

const shutdown = { kind: 'failing', reason: '/readyz answers 500: [-]shutdown failed', cause: 'shutdown' };

test('who answers nobody without credentials is asked with a token on a connection that verifies it, and with each new token', async () => {
  const secretive = await startSecretive((shown) => shown.startsWith('Bearer '));
  const kubeconfig = new Kubeconfig();
  const held = kubeconfig.hold(secretive);
  expect(await held.ask(limitMs)).toEqual({ kind: 'ready' });
  expect(await held.ask(limitMs)).toEqual(shutdown);
  await kubeconfig.replace(withToken('two'));
  expect(await held.ask(limitMs)).toEqual(shutdown);
  expect(secretive).toMatchObject({ came: ['', 'Bearer one', 'Bearer two'], connections: 2 });
});

test('a client certificate is shown in the handshake, and a new one in a new handshake', async () => {
  const secretive = await startSecretive((shown) => shown !== '');
  const kubeconfig = new Kubeconfig();
  kubeconfig.access = withCertificate(client);
  const held = kubeconfig.hold(secretive);
  const outcomes = [await held.ask(limitMs), await held.ask(limitMs)];
  await kubeconfig.replace(withCertificate(nextClient));
  outcomes.push(await held.ask(limitMs));
  expect(outcomes).toEqual([{ kind: 'ready' }, shutdown, shutdown]);
  expect([new Set(secretive.came).size, secretive.connections]).toEqual([3, 3]);
});

const distrusted: unknown = expect.objectContaining({ kind: 'failing', cause: 'distrust' });
const ready: unknown = expect.objectContaining({ kind: 'ready' });
const unverified =
  '/readyz answers 401 without credentials, and vipnat has no CA to verify its certificate by';

test.each<[string, Identity, readonly unknown[]]>([
  ['a stranger that took the place of a verified one', stranger, [distrusted, distrusted]],
  ['one that starts anew with a certificate for another name', renamed, [expect.anything(), ready, ready]],
  ['one unverified: the CA’s file is gone', own, Array(3).fill({ kind: 'ready', livenessOnly: unverified })],
])('%s gets no token', async (_, identity, outcomes) => {
  const secretive = await startSecretive(() => false);
  const closed = Promise.withResolvers<undefined>();
  const held = new Kubeconfig().hold(secretive, () => {
    closed.resolve(undefined);
  });
  await held.ask(limitMs);
  if (identity === own) rmSync(authorityFile);
  await apiservers.restart(secretive, identity);
  await closed.promise;
  expect(await askTimes(held, outcomes.length)).toEqual(outcomes);
  expect(secretive.came.filter((shown) => shown !== '')).toEqual([]);
});

test('one whose certificate is not for the server of the credentials gets no token, and it is said why', async () => {
  const secretive = await startSecretive(() => false);
  const kubeconfig = new Kubeconfig();
  kubeconfig.access = withToken('one', 'api.example.com');
  const held = kubeconfig.hold(secretive);
  const livenessOnly =
    '/readyz answers 401 without credentials, and its certificate is not valid for api.example.com, the server of /etc/kubeconfig';
  expect(await askTimes(held, 2)).toEqual(Array(2).fill({ kind: 'ready', livenessOnly }));
  expect(secretive.came).toEqual(['', '']);
});

test('credentials that are refused are not sent again, until others are there', async () => {
  const secretive = await startSecretive((shown) => shown === 'Bearer two');
  const kubeconfig = new Kubeconfig();
  const held = kubeconfig.hold(secretive);
  const told = '/readyz answers 401 without credentials, and 403 to the credentials of /etc/kubeconfig';
  expect(await askTimes(held, 4)).toEqual([
    { kind: 'ready' },
    { kind: 'ready', livenessOnly: '/readyz answers 403 to the credentials of /etc/kubeconfig' },
    { kind: 'ready', livenessOnly: told },
    { kind: 'ready', livenessOnly: told },
  ]);
  await kubeconfig.replace(withToken('two'));
  expect(await held.ask(limitMs)).toEqual(shutdown);
  expect(secretive.came).toEqual(['', 'Bearer one', '', '', 'Bearer two']);
});

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
  const server = createServer(readIdentity(own), ({ method, url }, response) => {
    requests.push(`${method} ${url}`);
    response.end();
  });
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
  const proxy = createTcpServer((client) => {
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
  const heard = open(await apiservers.listen(createTcpServer()));
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
