import { families, formatEndpoint, type Family } from '../../../lib/net.ts';
import { vips, listApiservers, addressOf } from '../../support/network/layout.ts';
import { KeepalivedHosts } from './keepalived-hosts.ts';
import { useCluster } from '../../support/network/use-cluster.ts';
import { startAgent, limitMs } from '../../support/host/vipnat.ts';
import { waitUntil } from '../../support/jest/waiting.ts';
import type { HoldReport } from '../../support/network/seat-tasks.ts';
import { test, expect } from '@jest/globals';
import { once } from 'node:events';

const connections = 20;
const holder = 'm1';
const other = 'm2';

const args = [
  ...families.flatMap((family) => ['--vip', vips[family]]),
  ...['--endpoints', families.flatMap((family) => listApiservers(family).map(formatEndpoint)).join(',')],
];

let keepaliveds: KeepalivedHosts;

const cluster = useCluster('each test', async () => {
  keepaliveds = new KeepalivedHosts(cluster, args);
  for (const name of [holder, other]) {
    await keepaliveds.prepare(name);
    await startAgent(cluster, name, args);
  }
});

const listRoutes = async (name: string) =>
  (await cluster.shell(name, `ip -4 route show table local ${vips.ipv4}/32`))
    .split('\n')
    .map((line) => line.trim());

const own = addressOf(holder);
const sourceRoute = `local ${vips.ipv4} dev eth0 proto 118 scope host src ${own}`;

async function waitForSource(name: string): Promise<void> {
  await waitUntil(
    async () => (await listRoutes(name))[0] === sourceRoute.replace(own, addressOf(name)),
    () => `${name} has no local route of vipnat's`,
  );
}

async function waitForNoRoute(name: string): Promise<void> {
  await waitUntil(
    async () => (await listRoutes(name)).join('') === '',
    () => `${name} keeps a local route of the VIP`,
  );
}

/** What becomes of the holder's own connections meanwhile. */
async function holdDuring(family: Family, act: () => Promise<unknown>): Promise<HoldReport> {
  const seat = cluster.seat("VIP holder's host");
  const { report } = await seat.hold({ host: vips[family], port: 6443 }, connections, limitMs);
  await act();
  seat.settle();
  return report;
}

test.each([
  ['ipv4' as const, {}],
  ['ipv6' as const, { ECONNABORTED: connections }],
])(
  'when keepalived hands the VIP on, %s connections of its former holder go on, or are ended at once',
  async (family, errors) => {
    const keepalived = keepaliveds.start(holder);
    await keepaliveds.waitForVips(holder);
    await waitForSource(holder);
    await keepaliveds.waitForBackup(keepaliveds.start(other));
    const report = await holdDuring(family, async () => {
      keepalived.kill('SIGTERM');
      await keepaliveds.waitForVips(other);
    });
    expect({ opened: report.opened, errors: report.errors }).toEqual({ opened: connections, errors });
    if (family === 'ipv4') expect(report.echoes).toBe(report.sent);
    await waitForNoRoute(holder);
    await waitForSource(other);
  },
);

test('a keepalived that is killed keeps VIP and route; the next one gives both away, and no connection breaks', async () => {
  const keepalived = keepaliveds.start(holder);
  await keepaliveds.waitForVips(holder);
  await waitForSource(holder);
  const ended = once(keepalived, 'exit');
  const { sent, ...report } = await holdDuring('ipv4', async () => {
    keepaliveds.kill(holder);
    await ended;
    keepaliveds.start(other);
    await keepaliveds.waitForVips(other);
    expect((await listRoutes(holder))[0]).toBe(sourceRoute);
    keepaliveds.start(holder);
    await keepaliveds.waitForVips(holder, false);
  });
  expect(report).toEqual({ opened: connections, echoes: sent, errors: {} });
  await waitForNoRoute(holder);
});
