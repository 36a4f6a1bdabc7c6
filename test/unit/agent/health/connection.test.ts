import { makeFolder } from '../../../support/network/own-folder.ts';
import { makeIdentity, type Identity, LocalApiservers, type Answering } from './local-apiservers.ts';
import { join } from 'node:path';
import { beforeEach, afterEach, test, expect } from '@jest/globals';
import { writeFileSync, readFileSync, rmSync } from 'node:fs';
import { type Server, createServer } from 'node:https';
import { TLSSocket } from 'node:tls';
import { FakeClock } from '../../../support/fakes/clock.ts';
import type { ApiAccess } from '../../../../lib/kubernetes/route.ts';
import type { HeldConnection } from '../../../../agent/health/apiserver.ts';
import { systemClock } from '../../../../lib/clock.ts';
import { findAuthority } from '../../../../lib/files.ts';
import { createCredentialsReader, createApiserver } from '../../../../agent/health/connection.ts';

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

  /** A connection to one apiserver. */
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
  expect(new Set(secretive.came).size).toBe(3);
  expect(secretive.connections).toBe(3);
});

test('a stranger that took the place of a verified apiserver gets no token', async () => {
  const secretive = await startSecretive(() => false);
  const held = new Kubeconfig().hold(secretive);
  await held.ask(limitMs);
  await apiservers.restart(secretive, stranger);
  for (let question = 0; question < 2; question += 1)
    expect(await held.ask(limitMs)).toMatchObject({ kind: 'failing', cause: 'distrust' });
  expect(secretive.came.filter((shown) => shown !== '')).toEqual([]);
});

test('without the file of the CA nobody is verified, and no token is sent', async () => {
  const secretive = await startSecretive(() => false);
  const closed = Promise.withResolvers<undefined>();
  const held = new Kubeconfig().hold(secretive, () => {
    closed.resolve(undefined);
  });
  await held.ask(limitMs);
  rmSync(authorityFile);
  await apiservers.restart(secretive, own);
  await closed.promise;
  for (let question = 0; question < 3; question += 1)
    expect(await held.ask(limitMs)).toEqual({
      kind: 'ready',
      livenessOnly:
        '/readyz answers 401 without credentials, and vipnat has no CA to verify its certificate by',
    });
  expect(secretive.came.filter((shown) => shown !== '')).toEqual([]);
});

test('one that starts anew with a certificate for another name is asked without credentials again', async () => {
  const secretive = await startSecretive(() => false);
  const held = new Kubeconfig().hold(secretive);
  await held.ask(limitMs);
  await apiservers.restart(secretive, renamed);
  const outcomes = [];
  for (let question = 0; question < 3; question += 1) outcomes.push(await held.ask(limitMs));
  expect(outcomes.slice(1)).toEqual(Array(2).fill(expect.objectContaining({ kind: 'ready' })));
  expect(secretive.came.filter((shown) => shown !== '')).toEqual([]);
});

test('one whose certificate is not for the server of the credentials gets no token, and it is said why', async () => {
  const secretive = await startSecretive(() => false);
  const kubeconfig = new Kubeconfig();
  kubeconfig.access = withToken('one', 'api.example.com');
  const held = kubeconfig.hold(secretive);
  for (let question = 0; question < 2; question += 1)
    expect(await held.ask(limitMs)).toEqual({
      kind: 'ready',
      livenessOnly:
        '/readyz answers 401 without credentials, and its certificate is not valid for api.example.com, the server of /etc/kubeconfig',
    });
  expect(secretive.came).toEqual(['', '']);
});

test('credentials that are refused are not sent again, until others are there', async () => {
  const secretive = await startSecretive((shown) => shown === 'Bearer two');
  const kubeconfig = new Kubeconfig();
  const held = kubeconfig.hold(secretive);
  const outcomes = [];
  for (let question = 0; question < 4; question += 1) outcomes.push(await held.ask(limitMs));
  const told = '/readyz answers 401 without credentials, and 403 to the credentials of /etc/kubeconfig';
  expect(outcomes).toEqual([
    { kind: 'ready' },
    { kind: 'ready', livenessOnly: '/readyz answers 403 to the credentials of /etc/kubeconfig' },
    { kind: 'ready', livenessOnly: told },
    { kind: 'ready', livenessOnly: told },
  ]);
  await kubeconfig.replace(withToken('two'));
  expect(await held.ask(limitMs)).toEqual(shutdown);
  expect(secretive.came).toEqual(['', 'Bearer one', '', '', 'Bearer two']);
});
