import { afterAll, afterEach, expect, test } from '@jest/globals';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { HealthMonitor } from '../../../../agent/health/monitor.ts';
import { createApiserver } from '../../../../agent/probe/probe-connections.ts';
import { findAuthority } from '../../../../lib/files/authority.ts';
import { systemClock } from '../../../../lib/control/clock.ts';
import { LocalApiservers, makeIdentity } from './local-apiservers.ts';

const folder = mkdtempSync(join(tmpdir(), 'vipnat-sent-'));
const own = makeIdentity(folder, 'tls');
const stranger = makeIdentity(folder, 'stranger');

afterAll(() => {
  rmSync(folder, { recursive: true });
});

const apiservers = new LocalApiservers();

afterEach(() => {
  apiservers.close();
});

const watchedMs = 2500;

/** What each of three apiservers, which answer with this status, gets from one agent that knows this CA. */
async function measure(
  status: number,
  authority: string,
): Promise<{ connections: number; questions: number }> {
  const three = await Promise.all([1, 2, 3].map(() => apiservers.answer(own, status)));
  const monitor = new HealthMonitor({
    apiserver: createApiserver({ clock: systemClock, findAuthority: () => findAuthority(authority) }),
    clock: systemClock,
    settings: { intervalMs: 250, timeoutMs: 250 },
    onChange: () => undefined,
  });
  monitor.watch({ endpoints: three.map(({ endpoint }) => endpoint), localAddresses: new Set() });
  await new Promise((resolve) => setTimeout(resolve, watchedMs));
  monitor.stop();
  const most = (counts: readonly number[]) => Math.max(...counts);
  return {
    connections: most(three.map(({ connections }) => connections)),
    questions: most(three.map(({ questions }) => questions)),
  };
}

test.each([
  ['answer 500', 500, own],
  ['answer 429', 429, own],
  ['have a certificate of a wrong CA', 200, stranger],
])(
  'three apiservers that %s at once get no more than three times what good ones get (I13)',
  async (_what, status, { certificate }) => {
    const [good, bad] = await Promise.all([measure(200, own.certificate), measure(status, certificate)]);
    expect(good.questions).toBeGreaterThan(1);
    expect(bad.questions).toBeLessThanOrEqual(3 * good.questions);
    expect(bad.connections).toBeLessThanOrEqual(3 * good.connections);
  },
);
