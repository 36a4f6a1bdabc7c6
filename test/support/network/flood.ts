/**
 * What a bad or broken client does to a server of HTTP: `flood.ts KIND PORT|@NAME`, to a port of this host's or an abstract
 * Unix socket. Ends by itself, and prints how it was met: a line of JSON.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { connect, type Socket } from 'node:net';

/** Connections that were taken, if only to be closed; how many the server has ended; bytes that came back; answers by status. */
const report = { connected: 0, ended: 0, received: 0, answers: {} as Record<string, number> };
const target = process.argv[3] ?? '';

/** How long what is slow goes on. */
const slowMs = 3500;

/** A connection whose answers are counted, and nothing of it throws. */
async function open(): Promise<Socket> {
  const socket = target.startsWith('@')
    ? connect(target.replace('@', '\0'))
    : connect(Number(target), '127.0.0.1');
  socket.on('data', (chunk: Buffer) => {
    report.received += chunk.length;
    for (const [, status = ''] of chunk.toString('latin1').matchAll(/HTTP\/1\.1 (\d{3}) /g))
      report.answers[status] = (report.answers[status] ?? 0) + 1;
  });
  socket.on('error', () => undefined);
  socket.once('close', () => (report.ended += 1));
  await new Promise((resolve) => {
    socket.once('connect', () => {
      report.connected += 1;
      resolve(undefined);
    });
    socket.once('close', resolve);
  });
  return socket;
}

async function openMany(count: number): Promise<Socket[]> {
  return await Promise.all(Array.from({ length: count }, open));
}

function end(sockets: readonly Socket[]): void {
  for (const socket of sockets) socket.destroy();
}

/** So many connections at a time, each new one as soon as one is closed, that say this bit by bit. */
async function trickle(count: number, head: string, more: string): Promise<void> {
  const until = performance.now() + slowMs;
  const one = async () => {
    while (performance.now() < until) {
      const socket = await open();
      // The machine is for whoever answers.
      if (socket.destroyed) await pause(50);
      socket.write(head);
      while (!socket.destroyed && performance.now() < until) {
        await pause(100);
        socket.write(more);
      }
      socket.destroy();
    }
  };
  await Promise.all(Array.from({ length: count }, one));
}

/** Sends all of it, and waits until the server has closed or a second has passed. */
async function shout(text: string): Promise<void> {
  const socket = await open();
  const closed = new Promise((resolve) => socket.once('close', resolve));
  socket.write(text);
  await Promise.race([closed, pause(1000)]);
  socket.destroy();
}

/** Asks again and again on connections that are kept, each question after the answer. */
async function askMany(connections: number, questions: number): Promise<void> {
  let left = questions;
  const one = async () => {
    while (left > 0) {
      const socket = await open();
      let hear: (value?: unknown) => void = () => undefined;
      socket.on('data', () => {
        hear();
      });
      socket.once('close', () => {
        hear();
      });
      while (!socket.destroyed && left > 0) {
        left -= 1;
        const answered = new Promise((resolve) => (hear = resolve));
        socket.write('GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n');
        await answered;
      }
      socket.destroy();
    }
  };
  await Promise.all(Array.from({ length: connections }, one));
}

const floods: Readonly<Record<string, () => Promise<void>>> = {
  'slow heads': () => trickle(100, 'GET /healthz HTTP/1.1\r\nx: ', 'y'),
  'unsent bodies': () =>
    trickle(100, 'POST /metrics HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000000\r\n\r\n', 'y'.repeat(1000)),
  'huge heads': async () => {
    const long = 'y'.repeat(1_000_000);
    for (let round = 0; round < 20; round += 1) {
      await shout(`GET /metrics HTTP/1.1\r\nhost: x\r\nx: ${long}\r\n\r\n`);
      await shout(`GET /${long} HTTP/1.1\r\nhost: x\r\n\r\n`);
      await shout(`GET /metrics HTTP/1.1\r\nhost: x\r\n${'x: y\r\n'.repeat(150_000)}\r\n`);
    }
  },
  crowd: async () => {
    const sockets = await openMany(2000);
    for (const socket of sockets) socket.write('GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n');
    await pause(slowMs / 2);
    end(sockets);
  },
  questions: () => askMany(16, 20_000),
  // Many questions at once, and none of their answers is read.
  pipeline: async () => {
    const sockets = await openMany(16);
    for (const socket of sockets) {
      socket.pause();
      socket.write('GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n'.repeat(20_000));
    }
    await pause(slowMs / 2);
    end(sockets);
  },
};

await floods[process.argv[2] ?? '']?.();
process.stdout.write(`${JSON.stringify(report)}\n`);
process.exit();
