import { expect, test } from '@jest/globals';
import { type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { families, type Family } from '../../../lib/address/address.ts';
import { formatEndpoint } from '../../../lib/address/endpoint.ts';
import { limitMs, sleep, startAgent, vipnat, waitUntil } from '../../support/host/vipnat.ts';
import { type Cluster } from '../../support/network/cluster.ts';
import { addressOf, listApiservers, vips } from '../../support/network/layout.ts';
import { locateDisk } from '../../support/network/namespaces.ts';
import type { HoldReport } from '../../support/network/seat-tasks.ts';
import { useCluster } from '../../support/network/use-cluster.ts';

const connections = 20;
const holder = 'm1';
const other = 'm2';

const args = [
  ...families.flatMap((family) => ['--vip', vips[family]]),
  ...['--endpoints', families.flatMap((family) => listApiservers(family).map(formatEndpoint)).join(',')],
];

let cluster: Cluster;

useCluster('each test', async (made) => {
  cluster = made;
  for (const name of [holder, other]) {
    const commands = [`${vips.ipv4}/32`, `${vips.ipv6}/128`].map((vip) => `ip addr del ${vip} dev eth0`);
    if (name === holder) await shell(name, commands.join('\n'));
    await writeConfiguration(name);
    await startAgent(cluster, name, args);
  }
});

const shell = (name: string, script: string) => cluster.namespaces.shell(cluster.namespaceOf(name), script);

const locate = (name: string, file: string) =>
  join(locateDisk(cluster.namespaceOf(name)), 'keepalived', file);

/** What `vipnat keepalived` prints is what this host's keepalived runs. */
async function writeConfiguration(name: string): Promise<void> {
  const { stdout } = await vipnat(cluster, name, ['keepalived', ...args]);
  expect(stdout).toContain(vips.ipv6);
  for (const folder of [locate(name, ''), join(locateDisk(cluster.namespaceOf(name)), 'run/keepalived')]) {
    mkdirSync(folder, { recursive: true });
  }
  writeFileSync(locate(name, 'keepalived.conf'), `${stdout}\n`);
}

function startKeepalived(name: string): ChildProcess {
  const pidFiles = ['-p', locate(name, 'main.pid'), '-r', locate(name, 'vrrp.pid')];
  const command = ['keepalived', '-n', '-l', '-f', locate(name, 'keepalived.conf'), ...pidFiles];
  return cluster.namespaces.start(cluster.namespaceOf(name), command);
}

/**
 * As a machine's memory runs out: both of its processes, and neither has a moment to do anything about the other. The child
 * would end in order when its parent is gone (PR_SET_PDEATHSIG), and the parent would start another child.
 */
function kill(name: string): void {
  const [main = 0, vrrp = 0] = ['main.pid', 'vrrp.pid'].map((file) =>
    Number(readFileSync(locate(name, file), 'utf8')),
  );
  process.kill(main, 'SIGSTOP');
  process.kill(vrrp, 'SIGKILL');
  process.kill(main, 'SIGKILL');
}

async function waitForVip(name: string, isThere = true): Promise<void> {
  await waitUntil(
    async () => {
      const text = await shell(name, 'ip -o addr show dev eth0');
      return families.every((family) => text.includes(` ${vips[family]}/`) === isThere);
    },
    () => `the VIPs ${isThere ? 'do not come to' : 'do not leave'} ${name}`,
  );
}

const listRoutes = async (name: string) =>
  (await shell(name, `ip -4 route show table local ${vips.ipv4}/32`)).split('\n').map((line) => line.trim());

const own = addressOf(holder);
const sourceRoute = `local ${vips.ipv4} dev eth0 proto 118 scope host src ${own}`;

async function waitForSource(name: string): Promise<void> {
  await waitUntil(
    async () => (await listRoutes(name))[0] === sourceRoute.replace(own, addressOf(name)),
    () => `${name} has no local route of vipnat's`,
  );
}

/** What becomes of the holder's own connections meanwhile. */
async function holdDuring(family: Family, act: () => Promise<unknown>): Promise<HoldReport> {
  const seat = cluster.seat("VIP holder's host");
  const { report } = await seat.hold({ host: vips[family], port: 6443 }, connections, limitMs);
  await act();
  await sleep(1000);
  seat.settle();
  return report;
}

test.each([
  ['ipv4' as const, {}],
  ['ipv6' as const, { ECONNABORTED: connections }],
])(
  'when keepalived hands the VIP on, %s connections of its former holder go on, or are ended at once',
  async (family, errors) => {
    const keepalived = startKeepalived(holder);
    await waitForVip(holder);
    await waitForSource(holder);
    startKeepalived(other);
    await sleep(1500);
    const report = await holdDuring(family, async () => {
      keepalived.kill('SIGTERM');
      await waitForVip(other);
    });
    expect({ opened: report.opened, errors: report.errors }).toEqual({ opened: connections, errors });
    if (family === 'ipv4') expect(report.echoes).toBe(report.sent);
    expect(await listRoutes(holder)).toEqual(['']);
    await waitForSource(other);
  },
  limitMs,
);

test(
  'a keepalived that is killed keeps VIP and route; the next one gives both away, and no connection breaks',
  async () => {
    const keepalived = startKeepalived(holder);
    await waitForVip(holder);
    await waitForSource(holder);
    const ended = once(keepalived, 'exit');
    const { sent, ...report } = await holdDuring('ipv4', async () => {
      kill(holder);
      await ended;
      startKeepalived(other);
      await waitForVip(other);
      expect((await listRoutes(holder))[0]).toBe(sourceRoute);
      startKeepalived(holder);
      await waitForVip(holder, false);
      await sleep(1000);
    });
    expect(report).toEqual({ opened: connections, echoes: sent, errors: {} });
    expect(await listRoutes(holder)).toEqual(['']);
  },
  limitMs,
);
