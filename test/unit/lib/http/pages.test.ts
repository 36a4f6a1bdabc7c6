import { type Page, toText, StatusServer } from '../../../../lib/http/pages.ts';
import type { Endpoint } from '../../../../lib/net.ts';
import { afterEach, describe, test, expect } from '@jest/globals';
import { systemClock } from '../../../../lib/clock.ts';
import { request } from 'node:http';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { once } from 'node:events';
import { createBoundedServer } from '../../../../lib/http/server.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';

function fail(): never {
  throw new Error('thrown');
}

const pages = new Map<string, Page>([
  ['/metrics', () => toText(200, 'all is well')],
  ['/broken', () => Promise.reject(new Error('two\nlines'))],
  ['/thrown', fail],
]);
const anyPort: Endpoint = { family: 'ipv4', address: '127.0.0.1', port: 0 };

/** An address of this host that nobody else uses: what is free there stays free. */
const lonely: Endpoint = { ...anyPort, address: '127.0.7.7' };

const stops: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});

/** A server on a port of its own, and all that it has to say. */
async function serve(endpoint: Endpoint = anyPort, clock = systemClock) {
  const said: string[] = [];
  const server = new StatusServer({
    ...{ endpoint, pages, clock },
    onProblem: ({ code, message }) => said.push(`${code}: ${message}`),
    onRecovered: () => said.push('recovered'),
  });
  stops.push(() => server.stop());
  await server.start();
  return { server, said, port: server.endpoint?.port ?? 0 };
}

function ask(port: number, path: string, method = 'GET', host = '127.0.0.1') {
  return new Promise<{ status: number; text: string; headers: Record<string, unknown> }>(
    (resolve, reject) => {
      const question = request({ host, port, path, method, agent: false }, (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
        response.on('end', () => {
          resolve({ status: response.statusCode ?? 0, text, headers: response.headers });
        });
      });
      question.on('error', reject).end();
    },
  );
}

/** A connection that says what it is told to, and what came back until it was closed. */
async function send(port: number, text: string): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  let answer = '';
  socket.on('data', (chunk) => (answer += String(chunk)));
  socket.on('error', () => undefined);
  socket.write(text);
  await new Promise((resolve) => socket.once('close', resolve));
  return answer;
}

/** Another program on a port of this host's. */
async function takePort(): Promise<{ port: number; release: () => Promise<unknown> }> {
  const other = createServer();
  await once(other.listen(0, lonely.address), 'listening');
  const { port } = other.address() as AddressInfo;
  return { port, release: () => new Promise((resolve) => other.close(resolve)) };
}

describe('a question', () => {
  test('gets its page, whatever follows the path, and HEAD its head alone', async () => {
    const { port } = await serve();
    expect(await ask(port, '/metrics')).toMatchObject({ status: 200, text: 'all is well\n' });
    expect(await ask(port, '/metrics?name=x')).toMatchObject({ status: 200 });
    expect(await ask(port, '/metrics', 'HEAD')).toMatchObject({
      status: 200,
      text: '',
      headers: { 'content-length': '12', 'content-type': 'text/plain; charset=utf-8' },
    });
  });

  test('for nothing that is there gets 404, and any other method 405', async () => {
    const { port } = await serve();
    expect(await ask(port, '/metrics/')).toMatchObject({
      status: 404,
      text: 'no such page. The pages are /metrics, /broken, /thrown\n',
    });
    for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS']) {
      expect(await ask(port, '/metrics', method)).toMatchObject({
        status: 405,
        headers: { allow: 'GET, HEAD' },
      });
    }
  });

  test.each([
    ['/broken', 'two lines'],
    ['/thrown', 'thrown'],
  ])('for %s, which fails, gets 500 with one line', async (path, why) => {
    const { port } = await serve();
    expect(await ask(port, path)).toMatchObject({ status: 500, text: `${path} failed: ${why}\n` });
    expect(await ask(port, '/metrics')).toMatchObject({ status: 200 });
  });

  test('by IPv6 is answered too, and by both at all addresses', async () => {
    for (const [address, host] of Object.entries({ '::1': '::1', '::': '127.0.0.1' })) {
      const { port } = await serve({ family: 'ipv6', address, port: 0 });
      expect(await ask(port, '/metrics', 'GET', host)).toMatchObject({ status: 200 });
    }
  });
});

describe('whoever connects and', () => {
  test('sends a head of 100 kB, or no HTTP, is refused, and others are answered', async () => {
    const { port } = await serve();
    const long = `GET /metrics HTTP/1.1\r\nhost: x\r\nx: ${'y'.repeat(100_000)}\r\n\r\n`;
    expect(await send(port, long)).toMatch(/^HTTP\/1\.1 431 /);
    expect(await send(port, '\u0016\u0003\u0001 hello\r\n\r\n')).toMatch(/^HTTP\/1\.1 400 /);
    expect(await ask(port, '/metrics')).toMatchObject({ status: 200 });
  });

  test('sends nothing for more than three seconds is sent away', async () => {
    const { port } = await serve();
    expect(await send(port, 'GET /metrics HTTP/1.1\r\n')).toMatch(/^HTTP\/1\.1 408 /);
    // Node.js itself waits for a minute.
    expect(createBoundedServer(fail)).toMatchObject({ headersTimeout: 3000, requestTimeout: 3000 });
  });

  test('asks before it has its answer is sent away, and who waits for it may go on asking', async () => {
    const { port } = await serve();
    const one = 'GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n';
    expect((await send(port, one.repeat(1000))).match(/HTTP\/1\.1 200/g) ?? []).toEqual([]);
    const socket = connect(port, '127.0.0.1');
    for (let question = 0; question < 3; question += 1) {
      const answered = new Promise((resolve) => socket.once('data', resolve));
      socket.write(one);
      expect(String(await answered)).toMatch(/^HTTP\/1\.1 200 /);
    }
    await endSocket(socket);
  });

  test('takes as many connections as it can, and takes each again, keeps nobody out', async () => {
    const { port } = await serve();
    const gone: Promise<void>[] = [];
    for (let index = 0; index < 200; index += 1) {
      const socket = connect({ port, host: '127.0.0.1', localAddress: `127.0.1.${index % 100}` });
      socket.on('error', () => undefined);
      await once(socket, 'connect');
      gone.push(new Promise((resolve) => socket.once('close', resolve)));
      if (index % 20 === 0) expect(await ask(port, '/metrics')).toMatchObject({ status: 200 });
    }
    // The oldest had to go for the others.
    await Promise.all(gone.slice(0, 160));
  });
});

describe('a port that is taken', () => {
  test('is said once, tried again and again, and said when it is there', async () => {
    const other = await takePort();
    const clock = new FakeClock();
    const { server, said } = await serve({ ...lonely, port: other.port }, clock);
    await clock.advance(300_000);
    const { server: stopped } = await serve({ ...lonely, port: other.port }, clock);
    await stopped.stop();
    expect(clock.pending).toBe(1);
    expect(said).toEqual([
      `LISTEN_FAILED: vipnat cannot serve /metrics, /broken and /thrown at ${lonely.address}:${other.port}: another program has that port. vipnat keeps trying. --listen takes another address, or off`,
    ]);
    expect(server.endpoint).toBeNull();
    await other.release();
    await clock.advance(61_000);
    expect(said.slice(1)).toEqual(['recovered']);
    expect(await ask(other.port, '/metrics', 'GET', lonely.address)).toMatchObject({ status: 200 });
  });
});

test('an address that this host does not have, as a virtual IP that it does not hold, is a problem in one line', async () => {
  const { said } = await serve({ family: 'ipv4', address: '192.0.2.1', port: 10_268 }, new FakeClock());
  expect(said).toEqual([
    expect.stringMatching(
      /^LISTEN_FAILED: .* at 192\.0\.2\.1:10268: this host does not have that address\. vipnat keeps trying\. .*$/,
    ),
  ]);
});

test('when it stops, the port is free and nobody who was connected holds it up', async () => {
  const { server, port } = await serve(lonely);
  const socket = connect(port, lonely.address);
  socket.on('error', () => undefined);
  await once(socket, 'connect');
  await server.stop();
  await expect(ask(port, '/metrics', 'GET', lonely.address)).rejects.toThrow('ECONNREFUSED');
});

async function endSocket(socket: Socket): Promise<void> {
  socket.destroy();
  await once(socket, 'close');
}
