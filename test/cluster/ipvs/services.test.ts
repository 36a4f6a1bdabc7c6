/** The balancer beside real kube-proxies in mode ipvs, on virtual machines whose kernel has IPVS and nftables. */
import { jest, test, expect } from '@jest/globals';
import { ProxiedPlan } from '../control-plane/proxied-plan.ts';
import { useProxiedNodes } from '../control-plane/use-proxied-nodes.ts';
import { runShell } from '../../../tools/lab/machines/machine.ts';
import { outsider } from '../../support/network/layout.ts';
import { services } from '../control-plane/proxied-services.ts';
import { vipnatCommand } from '../../../tools/lab/components/agent.ts';
import { waitUntil } from '../../support/jest/waiting.ts';
import { testFacts } from '../control-plane/proxied-facts.ts';
import { testTakeover } from '../control-plane/proxied-takeover.ts';

jest.setTimeout(300_000);

const plan = new ProxiedPlan({
  'ipvs (nft)': { mode: 'ipvs', iptables: 'nft' },
  'ipvs (legacy)': { mode: 'ipvs', iptables: 'legacy' },
});

/** A machine of this kind forwards a fraction of what a real one does. */
const totalPerSecond = 20;

const world = useProxiedNodes(plan);

/** The link address that answers for an IPv4 address, asked from outside; empty where nobody does. */
async function findAnswering(address: string): Promise<string> {
  const answer = await runShell(
    world().machine(outsider.name),
    `ip neigh flush dev eth0
     timeout 5 bash -c ': </dev/tcp/${address}/${services.web.port}' 2>/dev/null || true
     ip neigh show to ${address} dev eth0`,
  );
  return /lladdr (\S+)/.exec(answer)?.[1] ?? '';
}

interface Outcome {
  readonly code: string;
  readonly level: string;
  readonly why?: string;
  readonly remedy?: readonly string[];
}

async function examineArp(node: string): Promise<Outcome | undefined> {
  const command = vipnatCommand('doctor', '--json', '--capture', '0s');
  const { stdout } = await world().machine(node).run(command);
  const { checks } = JSON.parse(stdout) as { checks: readonly Outcome[] };
  return checks.find(({ code }) => code === 'strict-arp-off');
}

test('without strictARP nodes answer for an address that another one holds; doctor says so, and what it prints ends that', async () => {
  const [holder, other] = plan.nodes as [(typeof plan.nodes)[0], (typeof plan.nodes)[0]];
  const link = await runShell(world().machine(other.name), 'cat /sys/class/net/eth0/address');
  const found = await examineArp(other.name);
  expect(found?.level).toBe('fail');
  expect(found?.why).toContain('each node answers for an address');
  await world().setCable(holder.name, false);
  try {
    expect(await findAnswering(holder.vips.ipv4)).toBe(link.trim());
    for (const { name } of plan.nodes)
      await runShell(world().machine(name), (found?.remedy ?? []).join('\n'));
    expect(await findAnswering(holder.vips.ipv4)).toBe('');
  } finally {
    await world().setCable(holder.name, true);
  }
  expect(await examineArp(other.name)).toMatchObject({ level: 'ok' });
  // As its remark says: in kube-proxy's configuration.
  for (const name of plan.names) {
    await world().stopKubeProxy(name);
    await world().startKubeProxy(name, { ...plan.setUpOf(name), isStrictArp: true });
  }
  // To each of the nodes the other one was dead meanwhile.
  for (const { name, vips } of plan.nodes)
    await waitUntil(
      async () => (await listAnswering(vips.ipv4)).length === plan.podNames.length,
      () => `${name} does not use all pods again`,
    );
});

async function listAnswering(vip: string): Promise<readonly string[]> {
  return Object.keys((await world().seat(outsider.name).greet(vip, services.web.port, 20)).apiservers);
}

testFacts(plan, world);
testTakeover(plan, world, totalPerSecond);
