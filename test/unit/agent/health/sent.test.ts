import { afterEach, expect, test } from '@jest/globals';
import { HealthMonitor } from '../../../../agent/health/monitor.ts';
import { createApiserver } from '../../../../agent/probe/probe-connections.ts';
import { findAuthority } from '../../../../lib/files/authority.ts';
import { sleep, systemClock } from '../../../../lib/control/clock.ts';
import { LocalApiservers, makeIdentity } from './local-apiservers.ts';
import { makeFolder } from '../../../support/network/own-folder.ts';

const folder = makeFolder('sent');
const own = makeIdentity(folder, 'tls');
const stranger = makeIdentity(folder, 'stranger');

const apiservers = new LocalApiservers();

afterEach(() => {
  apiservers.close();
});

/** What each of three apiservers gets at most. */
interface Sent {
  readonly connections: number;
  readonly questions: number;
}

/** Starts an agent that knows this CA, and asks three apiservers, which answer with this status. Answers how to count what it sends. */
async function start(status: number, authority: string): Promise<() => Sent> {
  const three = await Promise.all([1, 2, 3].map(() => apiservers.answer(own, status)));
  const monitor = new HealthMonitor({
    apiserver: createApiserver({ clock: systemClock, findAuthority: () => findAuthority(authority) }),
    clock: systemClock,
    // However late an answer is here, it is one.
    settings: { intervalMs: 250, timeoutMs: 60_000 },
    onChange: () => undefined,
  });
  monitor.watch({ endpoints: three.map(({ endpoint }) => endpoint), localAddresses: new Set() });
  apiservers.atEnd(() => {
    monitor.stop();
  });
  return () => ({
    connections: Math.max(...three.map(({ connections }) => connections)),
    questions: Math.max(...three.map(({ questions }) => questions)),
  });
}

test.each([
  ['answer 500', 500, own],
  ['answer 429', 429, own],
  ['have a certificate of a wrong CA', 200, stranger],
])(
  'three apiservers that %s at once get no more than three times what good ones get (I13)',
  async (_what, status, { certificate }) => {
    const [countGood, countBad] = await Promise.all([
      start(200, own.certificate),
      start(status, certificate),
    ]);
    while (countGood().questions < 4) await sleep(systemClock, 10);
    const [good, bad] = [countGood(), countBad()];
    expect(bad.questions).toBeGreaterThan(0);
    expect(bad.questions).toBeLessThanOrEqual(3 * good.questions);
    expect(bad.connections).toBeLessThanOrEqual(3 * good.connections);
  },
);
