import { afterEach, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { connect as connectTcp } from 'node:net';
import { connect, type TLSSocket } from 'node:tls';
import { makePair } from '../../../../controller/webhook/certificate.ts';
import { systemClock } from '../../../../lib/control/clock.ts';
import { PostServer } from '../../../../lib/http/post-server.ts';

const servername = 'a.svc';

const stops: (() => unknown)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});

async function start() {
  const pair = await makePair(servername, new Date());
  const server = new PostServer({
    ...{ port: 0, path: '/it', maxBytes: 1000, clock: systemClock, title: 'serve it', remedy: '' },
    answer: (text) => JSON.stringify(text),
    onRefused: () => undefined,
    onProblem: () => undefined,
    onRecovered: () => undefined,
  });
  server.setPair(pair);
  await server.start();
  return { server, pair };
}

async function serve() {
  const { server, pair } = await start();
  stops.push(() => server.stop());
  const open = async (): Promise<TLSSocket> => {
    const options = { host: '127.0.0.1', port: server.port ?? 0, servername, ca: pair.certificate };
    const socket = connect(options);
    socket.on('error', () => undefined);
    stops.push(() => {
      socket.destroy();
    });
    await once(socket, 'secureConnect');
    return socket;
  };
  return { open, port: server.port ?? 0 };
}

test('who opens more connections than one address may have keeps out nobody who is asking', async () => {
  const { open } = await serve();
  const asking = await open();
  asking.write('POST /it HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\nab');
  const second = await open();
  const closed = once(second, 'close');
  for (let index = 0; index < 140; index += 1) await open();
  await closed;
  const answer = once(asking, 'data');
  asking.write('cd');
  expect(String(await answer)).toMatch(/^HTTP\/1\.1 200 OK[^]*"abcd"$/);
});

test('who connects from several addresses takes no connection of an address that has few', async () => {
  const { open, port } = await serve();
  const socket = await open();
  for (const localAddress of ['127.0.0.2', '127.0.0.3'])
    for (let index = 0; index < 130; index += 1) {
      const other = connectTcp({ host: '127.0.0.1', port, localAddress });
      other.on('error', () => undefined);
      await once(other, 'connect');
    }
  await open();
  const answer = once(socket, 'data');
  socket.write('POST /it HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\nabcd');
  expect(String(await answer)).toMatch(/^HTTP\/1\.1 200 OK/);
});

test('who asks before it has its answer is sent away', async () => {
  const { open } = await serve();
  const socket = await open();
  let text = '';
  socket.on('data', (part) => (text += String(part)));
  const question = 'POST /it HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\nabcd';
  socket.write(question.repeat(100));
  await once(socket, 'close');
  expect(text).not.toContain('200 OK');
});

test('who agrees upon TLS while the server ends does not hold up its end', async () => {
  const { server, pair } = await start();
  const tcp = connectTcp({ host: '127.0.0.1', port: server.port ?? 0 });
  tcp.on('error', () => undefined);
  await once(tcp, 'connect');
  // The server has it by then.
  const other = connect({ host: '127.0.0.1', port: server.port ?? 0, servername, ca: pair.certificate });
  other.on('error', () => undefined);
  await once(other, 'secureConnect');
  const stopped = server.stop();
  connect({ socket: tcp, servername, ca: pair.certificate }).on('error', () => undefined);
  await stopped;
  expect(server.port).toBeNull();
});
