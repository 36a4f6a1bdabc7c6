import { beforeEach, expect, test } from '@jest/globals';
import { type Cluster } from '../../support/network/cluster.ts';
import { useCluster } from '../../support/network/use-cluster.ts';
import { vips } from '../../support/network/layout.ts';
import { startProxies } from './traffic.ts';
import { type Agent, limitMs, sleep, startAgent } from '../../support/host/vipnat.ts';

const vip = vips.ipv4;
const contested = new RegExp(`two hosts hold ${vip}: this node, and the host with MAC `);
const alone = new RegExp(`only this node holds ${vip} again`);

let cluster: Cluster;
let agent: Agent;

useCluster('each test', async (made) => {
  cluster = made;
  await startProxies(cluster, ['m1'], 'nft', ['ipv4']);
});
beforeEach(async () => {
  agent = await startAgent(cluster, 'm1', ['--vip', vip]);
}, limitMs);

const shell = (machine: string, script: string) =>
  cluster.namespaces.shell(cluster.namespaceOf(machine), script);

test(
  'a host without VRRP that has the VIP too is told within 10 s by its MAC, and when it has given it up',
  async () => {
    const mac = (await shell('client', 'cat /sys/class/net/eth0/address')).trim();
    await shell('client', `ip addr add ${vip}/32 dev eth0`);
    const addedAt = performance.now();
    await agent.waitForLine(contested);
    const tookMs = performance.now() - addedAt;
    process.stderr.write(`contested-vip.test.ts: told after ${Math.round(tookMs)} ms\n`);
    expect(tookMs).toBeLessThan(10_000);
    expect(agent.log).toContain(`MAC ${mac}, which answers ARP for it`);
    await shell('client', `ip addr del ${vip}/32 dev eth0`);
    await agent.waitForLine(alone);
    expect([agent.listLines(contested), agent.listLines(alone)]).toMatchObject([
      { length: 1 },
      { length: 1 },
    ]);
  },
  2 * limitMs,
);

test(
  'one ARP request in five seconds is all that the question costs, and it leaves no neighbour (I15)',
  async () => {
    const tcpdump = `timeout 15 tcpdump -nni eth0 'arp[6:2] = 1 and arp dst host ${vip}' 2>/dev/null || true`;
    const requests = (await shell('client', tcpdump)).split('\n').filter((line) => line.includes('who-has'));
    expect(requests.length).toBeGreaterThanOrEqual(2);
    expect(requests.length).toBeLessThanOrEqual(4);
    await agent.stop();
    await sleep(1500);
    expect(await shell('m1', `ip neigh show to ${vip}`)).toBe('');
  },
  limitMs,
);

test(
  'a router that answers ARP for every address is no second holder',
  async () => {
    await shell(
      'worker',
      `ip route add ${vip}/32 dev pod0
       ip route add 10.77.0.11/32 dev pod0
       echo 1 >/proc/sys/net/ipv4/conf/eth0/proxy_arp
       echo 0 >/proc/sys/net/ipv4/neigh/eth0/proxy_delay`,
    );
    await sleep(12_000);
    expect(agent.listLines(contested)).toEqual([]);
  },
  limitMs,
);
