import { afterEach, test, expect } from '@jest/globals';
import { type Clock, systemClock } from '../../../../lib/clock.ts';
import { makePair } from '../../../../controller/webhook/certificate.ts';
import { PostServer } from '../../../../lib/http/pages.ts';
import { type TLSSocket, connect } from 'node:tls';
import { connect as connectTcp } from 'node:net';
import { once } from 'node:events';
import { FakeClock } from '../../../support/fakes/clock.ts';

const servername = 'a.svc';

const stops: (() => unknown)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});

async function start(clock: Clock = systemClock, onRefused = () => undefined) {
  const pair = await makePair(servername, new Date());
  const server = new PostServer({
    ...{ port: 0, path: '/it', maxBytes: 1000, clock, onRefused, title: 'serve it', remedy: '' },
    answer: (text) => JSON.stringify(text),
    onProblem: () => undefined,
    onRecovered: () => undefined,
  });
  server.setPair(pair);
  await server.start();
  return { server, pair };
}

async function serve(...given: Parameters<typeof start>) {
  const { server, pair } = await start(...given);
  stops.push(() => server.stop());
  const port = server.port ?? 0;
  const begin = (localAddress: string): TLSSocket => {
    // A socket of TLS takes no address to come from.
    const socket = connect({
      socket: connectTcp({ host: '127.0.0.1', port, localAddress }).on('error', () => undefined),
      ...{ servername, ca: pair.certificate },
    });
    socket.on('error', () => undefined);
    stops.push(() => {
      socket.destroy();
    });
    return socket;
  };
  const open = async (localAddress = '127.0.0.1'): Promise<TLSSocket> => {
    const socket = begin(localAddress);
    await once(socket, 'secureConnect');
    return socket;
  };
  // Costs nobody anything, so that many of them take no second.
  const openTcp = async (localAddress: string): Promise<void> => {
    const socket = connectTcp({ host: '127.0.0.1', port, localAddress }).on('error', () => undefined);
    stops.push(() => socket.destroy());
    await once(socket, 'connect');
  };
  return { begin, open, openTcp };
}

test('who opens more connections than one address may have keeps out nobody who is asking, and no other address', async () => {
  const { open, openTcp } = await serve();
  const asking = await open();
  asking.write('POST /it HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\nab');
  const [second, other] = [await open(), await open('127.0.0.2')];
  const closed = once(second, 'close');
  for (let index = 0; index < 140; index += 1) await openTcp('127.0.0.1');
  await closed;
  expect(await ask(other)).toMatch(/^HTTP\/1\.1 200 OK/);
  const answer = once(asking, 'data');
  asking.write('cd');
  expect(String(await answer)).toMatch(/^HTTP\/1\.1 200 OK[^]*"abcd"$/);
});

/** What becomes of so many connections, one after the other. */
async function flood(begin: (address: string) => TLSSocket, address: string, count: number) {
  let agreed = 0;
  for (let index = 0; index < count; index += 1) {
    const socket = begin(address);
    agreed += await new Promise<number>((resolve) => {
      socket.once('secureConnect', () => {
        resolve(1);
      });
      socket.once('close', () => {
        resolve(0);
      });
    });
  }
  return agreed;
}

async function ask(socket: TLSSocket): Promise<string> {
  const answer = once(socket, 'data');
  socket.write('POST /it HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\nabcd');
  return String(await answer);
}

test('who connects again and again costs so many handshakes a second, and open connections are answered', async () => {
  const clock = new FakeClock();
  let refused = 0;
  const { begin, open } = await serve(clock, () => void (refused += 1));
  const honest = await open();
  // From then on it is kept.
  expect(await ask(honest)).toMatch(/^HTTP\/1\.1 200 OK/);
  const attackers = ['127.0.0.2', '127.0.0.3', '127.0.0.4'];
  expect(await flood(begin, '127.0.0.2', 1000)).toBe(256);
  expect(await ask(honest)).toMatch(/^HTTP\/1\.1 200 OK/);
  // Others can still begin.
  expect(await ask(await open())).toMatch(/^HTTP\/1\.1 200 OK/);
  // Two of the honest one, and all of others.
  expect(await flood(begin, '127.0.0.3', 300)).toBe(512 - 2 - 256);
  expect(await flood(begin, '127.0.0.4', 100)).toBe(0);
  expect(refused).toBe(1000 - 256 + 300 - 254 + 100);
  expect(await ask(honest)).toMatch(/^HTTP\/1\.1 200 OK/);
  for (let second = 0; second < 3; second += 1) {
    clock.stall(1000);
    let agreed = 0;
    for (const address of attackers) agreed += await flood(begin, address, 100);
    expect(agreed).toBe(64);
    expect(await ask(honest)).toMatch(/^HTTP\/1\.1 200 OK/);
  }
  // Who comes back to an address that was quiet finds all of its share.
  clock.stall(10_000);
  expect(await flood(begin, '127.0.0.2', 300)).toBe(256);
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
