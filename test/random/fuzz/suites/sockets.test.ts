import { jest, afterEach, test, expect } from '@jest/globals';
import { connect, type Server, createServer, type Socket } from 'node:net';
import { toText, StatusServer } from '../../../../lib/http/pages.ts';
import { systemClock } from '../../../../lib/clock.ts';
import { fuzz } from '../engine/run.ts';
import { mutateBytes } from '../engine/mutate.ts';
import { insist } from '../engine/properties.ts';
import { askLoopback } from '../../../../lib/http/client.ts';

jest.setTimeout(3_600_000);

const stops: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});

const questions = [
  'GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n',
  'HEAD /healthz?a=b HTTP/1.0\r\n\r\n',
  'POST /status HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello',
  'GET /status HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n',
  `GET /${'a'.repeat(9000)} HTTP/1.1\r\nHost: a\r\n\r\n`,
  'GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n',
  'OPTIONS * HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n',
  'CONNECT 10.0.0.1:443 HTTP/1.1\r\nHost: a\r\n\r\n',
].map((text) => Buffer.from(text));

/** Sends some bytes and no more; what came back until the connection ended. */
const send = (port: number, bytes: Buffer): Promise<string> =>
  new Promise((resolve) => {
    let answer = '';
    const socket = connect({ port, host: '127.0.0.1' });
    socket.on('data', (chunk: Buffer) => (answer += chunk.toString('latin1')));
    socket
      .on('error', () => undefined)
      .on('close', () => {
        resolve(answer);
      });
    socket.end(bytes);
  });

test('whatever comes to the port of --listen ends, and the next question is answered', async () => {
  const page = () => toText(200, 'ok');
  const problems: string[] = [];
  const server = new StatusServer({
    endpoint: { family: 'ipv4', address: '127.0.0.1', port: 0 },
    pages: new Map(['/metrics', '/healthz', '/status'].map((path) => [path, page])),
    clock: systemClock,
    onProblem: ({ message }) => problems.push(message),
    onRecovered: () => undefined,
  });
  stops.push(() => server.stop());
  await server.start();
  const port = server.endpoint?.port ?? 0;
  await fuzz({
    name: 'hostile questions to --listen',
    cases: 2000,
    make: (random) => mutateBytes(random, questions),
    // Up to three seconds by the limits for a question that is not whole: this one ends its side at once.
    check: async (bytes) => {
      const answer = await send(port, bytes);
      insist(answer === '' || answer.startsWith('HTTP/1.1 '), `no answer: ${answer.slice(0, 100)}`);
    },
  });
  expect(
    await send(port, Buffer.from('GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')),
  ).toContain('\r\n\r\nok\n');
  expect(problems).toEqual([]);
});

const answers = [
  'HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\niptables',
  'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\niptables\r\n0\r\n\r\n',
  'HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}',
  `HTTP/1.1 200 OK\r\n\r\n${'x'.repeat(200)}`,
  'HTTP/1.1 301 Moved\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n',
  'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nipvs',
].map((text) => Buffer.from(text));

/** Whoever has kube-proxy's port: it answers everything with these bytes and ends. */
async function answerWith(next: () => Buffer): Promise<number> {
  const server: Server = createServer((socket: Socket) => {
    socket.on('error', () => undefined).once('data', () => socket.end(next()));
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  stops.push(() => new Promise((resolve) => server.close(resolve)));
  const bound = server.address();
  return typeof bound === 'object' ? (bound?.port ?? 0) : 0;
}

test('whatever answers in kube-proxy’s place: a short answer or none', async () => {
  let bytes = Buffer.alloc(0);
  const port = await answerWith(() => bytes);
  const limits = { limitMs: 700, maxLength: 64 };
  await fuzz({
    name: 'hostile answers on this host',
    cases: 2000,
    make: (random) => mutateBytes(random, answers),
    check: async (next) => {
      bytes = Buffer.from(next);
      const answer = await askLoopback(`http://127.0.0.1:${port}/proxyMode`, limits);
      insist(answer === null || answer.text.length <= limits.maxLength, 'a short answer');
    },
  });
});
