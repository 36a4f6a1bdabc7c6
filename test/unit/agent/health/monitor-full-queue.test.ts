import { fileURLToPath } from 'node:url';
import { makeFolder } from '../../../support/network/own-folder.ts';
import { makeIdentity, LocalApiservers } from './local-apiservers.ts';
import { afterEach, test, expect } from '@jest/globals';
import { type Endpoint, formatEndpoint } from '../../../../lib/net.ts';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { HealthMonitor } from '../../../../agent/health/monitor.ts';
import { createApiserver } from '../../../../agent/health/connection.ts';
import { systemClock } from '../../../../lib/clock.ts';
import { waitUntil, sleep, WaitedTooLong } from '../../../support/jest/waiting.ts';
import { connect } from 'node:net';

const program = fileURLToPath(new URL('../../../support/network/apiserver.ts', import.meta.url));
const folder = makeFolder('queue');
const own = makeIdentity(folder, 'tls');

const apiservers = new LocalApiservers();

afterEach(() => {
  apiservers.close();
});

/** After five seconds its connections would be lost. */
const longestStopMs = 4500;

test('an apiserver that stands still for 1.5 s with a full accept queue gets no new connections, and keeps its open ones', async () => {
  const witness = await apiservers.answer(own, 200);
  const stopped: Endpoint = { ...witness.endpoint, address: '127.0.0.2' };
  const { key, certificate } = own;
  const child = spawn(
    process.execPath,
    [program, 'm2', String(stopped.port), certificate, key, stopped.address],
    {
      env: { ...process.env, BACKLOG: '8' },
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  apiservers.atEnd(() => {
    child.kill('SIGKILL');
  });
  await once(child.stdout, 'data');
  const seen = new Set<string>();
  const monitor = new HealthMonitor({
    apiserver: createApiserver({ clock: systemClock, findAuthority: () => null }),
    clock: systemClock,
    settings: { intervalMs: 250, timeoutMs: 250 },
    onChange: () => undefined,
    onResult: () => {
      const one = monitor.view.get(formatEndpoint(stopped));
      seen.add(`${one?.state} ${one?.staleConnections}`);
    },
  });
  monitor.watch({ endpoints: [witness.endpoint, stopped], localAddresses: new Set() });
  apiservers.atEnd(() => {
    monitor.stop();
  });
  const isThere = (...states: string[]) =>
    waitUntil(
      () => Promise.resolve(states.some((state) => seen.has(state))),
      () => JSON.stringify([...seen]),
    );
  await waitUntil(
    () => Promise.resolve(monitor.all.every(({ history }) => history.readyAnswers > 0)),
    () => JSON.stringify(monitor.all),
  );

  const stoppedAt = performance.now();
  child.kill('SIGSTOP');
  for (let client = 0; client < 20; client += 1) {
    const socket = connect(stopped.port, stopped.address).on('error', () => undefined);
    apiservers.atEnd(() => {
      socket.destroy();
    });
  }
  await isThere('dead half-open');
  await sleep(Math.max(0, 1500 - (performance.now() - stoppedAt)));
  const stoppedSeen = [...seen];
  seen.clear();
  child.kill('SIGCONT');
  const lastedMs = performance.now() - stoppedAt;
  if (lastedMs > longestStopMs) throw new WaitedTooLong(`it stood still for ${lastedMs} ms`);
  // One that a busy machine found dead late was so for under a second, and is ready at once.
  await isThere('warming none', 'ready none');
  expect([...stoppedSeen, ...seen].filter((state) => state.endsWith(' all'))).toEqual([]);
});
