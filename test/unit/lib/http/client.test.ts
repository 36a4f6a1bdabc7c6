import { afterEach, test, expect } from '@jest/globals';
import type { RequestListener } from 'node:http';
import { makePair } from '../../../../controller/webhook/certificate.ts';
import { createServer } from 'node:https';
import { HurriedClock } from '../../../support/devices/hurried-clock.ts';
import type { AddressInfo } from 'node:net';
import { type HttpsServer, openHttps, type HttpsCall, callHttps } from '../../../../lib/http/client.ts';
import { judge } from '../../../../agent/health/connection.ts';

const stops: (() => void)[] = [];
afterEach(() => {
  for (const stop of stops.splice(0)) stop();
});

async function serve(listener: RequestListener, name = 'localhost') {
  const { certificate: cert, key } = await makePair(name, new Date());
  const server = createServer({ cert, key }, listener);
  server.on('tlsClientError', () => undefined);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  stops.push(() => {
    server.closeAllConnections();
    server.close();
  });
  const clock = new HurriedClock();
  const { port } = server.address() as AddressInfo;
  const credentials = { username: 'vipnat', password: 'pass:word' };
  const open = (changes: Partial<HttpsServer> = {}) =>
    openHttps({ host: 'localhost', port, ca: cert, credentials, ...changes });
  const connections = open();
  const call = (changes: Partial<HttpsCall> = {}) =>
    callHttps({
      connections,
      ...{ method: 'GET', path: '/a?b=c', body: null, limitMs: 20_000, maxBytes: 1000, clock },
      signal: new AbortController().signal,
      ...changes,
    });
  return { call, clock, open, server };
}

test('a question is sent as it is, with the credentials, and its answer comes back with any status', async () => {
  const { call } = await serve((request, response) => {
    request.on('data', (body) => {
      const { authorization = '' } = request.headers;
      const [, basic = ''] = authorization.split(' ');
      const user = Buffer.from(basic, 'base64').toString();
      response.writeHead(503).end(`${request.method} ${request.url} ${user} ${body}`);
    });
  });
  const answer = await call({ method: 'POST', body: '{"ä":1}' });
  expect(answer).toEqual({ status: 503, text: 'POST /a?b=c vipnat:pass:word {"ä":1}' });
});

test('an answer that is too long is not read, one without an end has a limit, and one without its body is empty', async () => {
  const { call, clock } = await serve((request, response) => {
    if (request.url === '/long') response.end('x'.repeat(1001));
    if (request.url === '/never') clock.expire();
    if (request.url === '/bodiless') response.writeHead(200, { 'content-length': 15 }).flushHeaders();
    if (request.url === '/bodiless') request.socket.end();
  });
  await expect(call({ path: '/long' })).rejects.toMatchObject({ reason: 'too-long' });
  await expect(call({ path: '/never' })).rejects.toMatchObject({
    ...{ reason: 'unreachable', message: 'no answer within 20 s' },
  });
  expect(await call({ path: '/bodiless' })).toEqual({ status: 200, text: '' });
});

test('a server whose certificate is for another name, or from another CA, is told nothing', async () => {
  const told: unknown[] = [];
  const { call, open } = await serve((request) => told.push(request.url), 'other.example');
  await expect(call()).rejects.toMatchObject({
    reason: 'untrusted',
    message: 'its certificate is not for localhost',
  });
  for (const ca of [null, (await makePair('localhost', new Date())).certificate]) {
    await expect(call({ connections: open({ ca }) })).rejects.toMatchObject({
      ...{ reason: 'untrusted', message: expect.stringContaining('does not come from the given CA') },
    });
  }
  await expect(call({ connections: open({ host: '127.0.0.1' }) })).rejects.toMatchObject({
    reason: 'untrusted',
  });
  expect(told).toEqual([]);
});

test('whoever ends the signal ends the call, with what it was ended with', async () => {
  const abort = new AbortController();
  const { call } = await serve(() => {
    abort.abort(new Error('enough'));
  });
  await expect(call({ signal: abort.signal })).rejects.toThrow('enough');
  await expect(call({ signal: abort.signal })).rejects.toThrow('enough');
});

test('one question after the other has the same connection; after one that failed there is another', async () => {
  const { call, server } = await serve((request, response) => {
    if (request.url === '/lost') request.socket.destroy();
    else response.end('x');
  });
  let connections = 0;
  server.on('secureConnection', () => (connections += 1));
  for (const path of ['/', '/', '/']) await call({ path });
  expect(connections).toBe(1);
  await expect(call({ path: '/lost' })).rejects.toMatchObject({ reason: 'unreachable' });
  await call();
  expect(connections).toBe(2);
});

test('what fails names the path that was asked for', () => {
  const answer = { statusCode: 503, complete: true };
  expect(judge(answer, '')).toMatchObject({ reason: '/readyz answers 503' });
});
