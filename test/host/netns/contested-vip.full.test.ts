import { beforeEach, expect, jest, test } from '@jest/globals';
import { vips } from '../../support/network/layout.ts';
import { useProxiedCluster } from './traffic.ts';
import { type Agent, limitMs, startAgent, waitUntil } from '../../support/host/vipnat.ts';

jest.setTimeout(2 * limitMs);

const vip = vips.ipv4;
const contested = new RegExp(`two hosts hold ${vip}: this node, and the host with MAC `);
/** The kernel sends a question again after a second. */
const resentSeconds = 2.5;
const alone = new RegExp(`only this node holds ${vip} again`);

let agent: Agent;

const cluster = useProxiedCluster('each test');
beforeEach(async () => {
  agent = await startAgent(cluster, 'm1', ['--vip', vip]);
});

/** When the next so many packets of ARP that fit the filter were heard on a machine, in seconds. */
async function captureArp(machine: string, count: number, filter: string): Promise<number[]> {
  const words = ['tcpdump', '-nn', '-tt', '-i', 'eth0', '-c', String(count), filter];
  const { stdout } = await cluster.run(machine, words, { limitMs });
  return stdout.split('\n').map((line) => Number.parseFloat(line));
}

test('a host without VRRP that has the VIP too is told by its MAC, and when it has given it up', async () => {
  const mac = (await cluster.shell('client', 'cat /sys/class/net/eth0/address')).trim();
  await cluster.shell('client', `ip addr add ${vip}/32 dev eth0`);
  await agent.waitForLine(contested);
  expect(agent.log).toContain(`MAC ${mac}, which answers ARP for it`);
  await cluster.shell('client', `ip addr del ${vip}/32 dev eth0`);
  await agent.waitForLine(alone);
  expect([agent.listLines(contested), agent.listLines(alone)]).toMatchObject([{ length: 1 }, { length: 1 }]);
});

test('a second holder is told where both have the MAC of one virtual router (use_vmac)', async () => {
  const addVmac =
    'ip link add vrrp.51 link eth0 address 00:00:5e:00:01:33 type macvlan mode private && ip link set vrrp.51 up';
  // As keepalived has it: the interface below does not answer for the VIP.
  const ignore =
    'echo 1 >/proc/sys/net/ipv4/conf/eth0/arp_ignore; echo 1 >/proc/sys/net/ipv4/conf/vrrp.51/arp_ignore';
  await cluster.shell(
    'm1',
    `${addVmac}; ${ignore}; ip addr del ${vip}/32 dev eth0; ip addr add ${vip}/32 dev vrrp.51`,
  );
  await cluster.shell('client', `${addVmac}; ${ignore}; ip addr add ${vip}/32 dev vrrp.51`);
  await agent.waitForLine(contested);
  expect(agent.log).toContain('MAC 00:00:5e:00:01:33, which answers ARP for it');
  await cluster.shell('client', 'ip link del vrrp.51');
  await agent.waitForLine(alone);
});

test('one ARP request in five seconds is all that the question costs, and it leaves no neighbour (I15)', async () => {
  const requests = await captureArp('client', 4, `arp[6:2] = 1 and arp dst host ${vip}`);
  // The kernel repeats what the agent was too late to take back, after a second.
  const questions = requests.filter((at, index) => at - (requests[index - 1] ?? -Infinity) > resentSeconds);
  const [first = 0, last = 0] = [questions[0], questions.at(-1)];
  expect(questions.length).toBeGreaterThan(1);
  // One of them may have been late.
  expect((last - first) / (questions.length - 1)).toBeGreaterThan(4);
  await agent.stop();
  await waitUntil(
    async () => (await cluster.shell('m1', `ip neigh show to ${vip}`)) === '',
    'the agent left a neighbour',
  );
});

test('a router that answers ARP for every address is no second holder', async () => {
  await cluster.shell(
    'worker',
    `ip route add ${vip}/32 dev pod0
       ip route add 10.77.0.11/32 dev pod0
       echo 1 >/proc/sys/net/ipv4/conf/eth0/proxy_arp
       echo 0 >/proc/sys/net/ipv4/neigh/eth0/proxy_delay`,
  );
  // A third answer comes when the agent has thought about two.
  await captureArp('m1', 3, `arp[6:2] = 2 and arp src host ${vip}`);
  expect(agent.listLines(contested)).toEqual([]);
});
