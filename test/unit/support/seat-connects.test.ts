import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { OwnTime } from '../../support/network/own-time.ts';
import { connectAtRate } from '../../support/network/seat-connects.ts';

const server = createServer((socket) => {
  socket.on('error', () => undefined).end('someone\n');
});

beforeEach(async () => {
  await once(server.listen(0, '127.0.0.1'), 'listening');
});
afterEach(() => {
  server.close();
});

test('a client that stood still sends what it missed later, at its rate, and loses no answer that came meanwhile', async () => {
  const [perSecond, durationMs, limitMs, standstillMs] = [50, 1000, 500, 800];
  const { port } = server.address() as AddressInfo;
  const begun = performance.now();
  const connecting = connectAtRate(
    { kind: 'connects', host: '127.0.0.1', port, perSecond, durationMs, limitMs, isNamed: true },
    new AbortController().signal,
  );
  await once(server, 'connection');
  // As a process that gets no processor: its timers are due, and answers wait.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, standstillMs);
  expect(await connecting).toMatchObject({
    ...{ sent: 50, failures: [], slowAtMs: [], apiservers: { someone: 50 } },
  });
  expect(performance.now() - begun).toBeGreaterThan(durationMs + standstillMs - 100);
});

test('a limit that was taken back calls nobody back', async () => {
  const own = new OwnTime();
  let count = 0;
  own.schedule(10, () => (count += 1))();
  await sleep(40);
  own.close();
  expect(count).toBe(0);
});

test('a local port that another connection of the host has is left out', async () => {
  const { port } = server.address() as AddressInfo;
  const firstLocalPort = 31_000;
  // Whoever has it, this one or another: the measurement begins with a port that is taken.
  const holder = connect({ host: '127.0.0.1', port, localPort: firstLocalPort });
  await Promise.race([once(holder, 'connect'), once(holder, 'error').catch(() => undefined)]);
  const report = await connectAtRate(
    {
      ...{ kind: 'connects', host: '127.0.0.1', port, perSecond: 50, durationMs: 100, firstLocalPort },
      isNamed: true,
    },
    new AbortController().signal,
  );
  holder.destroy();
  expect(report).toMatchObject({ sent: 5, failures: [], apiservers: { someone: 5 } });
});
