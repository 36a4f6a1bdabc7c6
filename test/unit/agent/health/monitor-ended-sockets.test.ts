import { makeFolder } from '../../../support/network/own-folder.ts';
import { makeIdentity, LocalApiservers } from './local-apiservers.ts';
import { afterEach, test, expect } from '@jest/globals';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { HealthMonitor } from '../../../../agent/health/monitor.ts';
import { createApiserver } from '../../../../agent/health/connection.ts';
import { waitUntil } from '../../../support/jest/waiting.ts';
import { endVerdict } from '../../../../agent/health/judge.ts';

const folder = makeFolder('ended');
const own = makeIdentity(folder, 'tls');
const apiservers = new LocalApiservers();

afterEach(() => {
  apiservers.close();
});

test('a server that closes its connections, and still accepts others, is out until it answers again', async () => {
  const [witness, ending] = [await apiservers.answer(own, 200), await apiservers.answer(own, 200)];
  // Sockets are real, and time is not: so no machine is too slow.
  const clock = new FakeClock();
  const reasons: string[] = [];
  const monitor = new HealthMonitor({
    apiserver: createApiserver({ clock, findAuthority: () => null }),
    clock,
    settings: { intervalMs: 250, timeoutMs: 250 },
    onChange: (_before, { state, reason }) => reasons.push(`${state}: ${reason}`),
  });
  monitor.watch({ endpoints: [witness.endpoint, ending.endpoint], localAddresses: new Set() });
  apiservers.atEnd(() => {
    monitor.stop();
  });
  const waitFor = (isSo: () => boolean) =>
    waitUntil(
      () => Promise.resolve(isSo()),
      () => JSON.stringify([reasons, monitor.all]),
    );
  for (let answers = 1; answers <= 4; answers += 1) {
    await waitFor(() => monitor.all.every(({ history }) => history.readyAnswers >= answers));
    for (let tick = 0; tick < 4; tick += 1) await clock.advance(250);
  }
  await waitFor(() => monitor.all.every(({ history }) => history.readyAnswers >= 5));
  ending.server.closeAllConnections();
  await waitFor(() => reasons.length > 0);
  expect(reasons).toEqual([`draining: ${endVerdict.reason}`]);
  await clock.advance(1000);
  await waitFor(() => reasons.length > 1);
  expect(reasons[1]).toMatch(/^warming: /);
});
