import { vips, addressOf } from '../../support/network/layout.ts';
import { KeepalivedHosts } from './keepalived-hosts.ts';
import { useCluster } from '../../support/network/use-cluster.ts';
import { startAgent, type Agent } from '../../support/host/vipnat.ts';
import { waitUntil } from '../../support/jest/waiting.ts';
import { test, expect } from '@jest/globals';
import { once } from 'node:events';
import { bothVips, allEndpoints, holdDuring, expectUnharmed } from './traffic.ts';

const holder = 'm1';
const other = 'm2';
const args = [...bothVips, '--endpoints', allEndpoints];

let keepaliveds: KeepalivedHosts;
let agents: Agent[];

const cluster = useCluster('each test', async () => {
  keepaliveds = new KeepalivedHosts(cluster, args);
  agents = [];
  for (const name of [holder, other]) {
    await keepaliveds.prepare(name);
    agents.push(await startAgent(cluster, name, args));
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
    `${name} has no local route of vipnat's`,
  );
}

async function waitForNoRoute(name: string): Promise<void> {
  await waitUntil(async () => (await listRoutes(name)).join('') === '', `${name} keeps a local route`);
}

test('a keepalived that is killed keeps VIP and route; the next one gives both away, and no connection breaks', async () => {
  const keepalived = keepaliveds.start(holder);
  await keepaliveds.waitForVips(holder);
  await waitForSource(holder);
  const ended = once(keepalived, 'exit');
  const holderItself = { seat: "VIP holder's host", host: vips.ipv4 } as const;
  const report = await holdDuring(cluster, holderItself, async () => {
    keepaliveds.kill(holder);
    await ended;
    keepaliveds.start(other);
    await keepaliveds.waitForVips(other);
    expect((await listRoutes(holder))[0]).toBe(sourceRoute);
    keepaliveds.start(holder);
    await keepaliveds.waitForVips(holder, false);
  });
  expectUnharmed(report);
  await waitForNoRoute(holder);
});

test('a killed agent leaves its route to a keepalived that ends: one host answers ARP', async () => {
  const keepalived = keepaliveds.start(holder);
  await keepaliveds.waitForVips(holder);
  await waitForSource(holder);
  await agents[0]?.stop('SIGKILL');
  expect((await listRoutes(holder))[0]).toBe(sourceRoute);
  keepaliveds.start(other);
  keepalived.kill();
  await keepaliveds.waitForVips(other);
  await waitForNoRoute(holder);
});
