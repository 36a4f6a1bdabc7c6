/** The balancer beside the real kube-proxy in every mode that this kernel has, and without one, for both families. */
import { jest, test, expect } from '@jest/globals';
import { type ProxySetUp, ProxiedPlan } from './proxied-plan.ts';
import { useProxiedNodes } from './use-proxied-nodes.ts';
import { testFacts, whoDecides } from './proxied-facts.ts';
import { testTakeover, underLoad } from './proxied-takeover.ts';
import { suiteNames, unpackSuite } from '../../support/suites/suites.ts';
import { families } from '../../../lib/net.ts';

jest.setTimeout(180_000);

const changing = 'iptables (nft)';
const older = 'nftables, by an older nft than the balancer has';
const setUps = {
  [changing]: { mode: 'iptables', iptables: 'nft' },
  'iptables (legacy)': { mode: 'iptables', iptables: 'legacy' },
  nftables: { mode: 'nftables', iptables: 'nft' },
  [older]: { mode: 'nftables', iptables: 'nft', suites: { kubeProxy: 'bookworm', balancer: 'trixie' } },
  'no kube-proxy': { mode: 'none', iptables: 'nft' },
} as const satisfies Readonly<Record<string, ProxySetUp>>;
const plan = new ProxiedPlan(setUps);

/** New connections from outside while something changes. */
const totalPerSecond = 200;

const world = useProxiedNodes(plan);
testFacts(plan, world);
testTakeover(plan, world, totalPerSecond);

test('kube-proxy follows endpoints by its older nft, and both list all rules of the node', async () => {
  const node = plan.nodeOf(older);
  await world().setReady(older, [node]);
  await world().setReady(older, plan.nodes);
  for (const suite of suiteNames.slice(1)) {
    const list = [`${unpackSuite(suite)}/bin/nft`, 'list', 'ruleset'];
    const { exitCode, stderr } = await world().machine(node.name).run(list);
    expect({ suite, exitCode, stderr }).toEqual({ suite, exitCode: 0, stderr: '' });
  }
});

test('kube-proxy is restarted, and changes its mode and its tools: no connection fails', async () => {
  const [own, legacy] = [setUps[changing], setUps['iptables (legacy)']];
  const changes: readonly ProxySetUp[] = [own, setUps.nftables, legacy, own];
  await underLoad(world(), [changing], totalPerSecond, async () => {
    let before: ProxySetUp = own;
    for (const setUp of changes) {
      await world().stopKubeProxy(changing);
      if (before.iptables !== setUp.iptables) await world().removeRules(changing, before.iptables);
      await world().startKubeProxy(changing, setUp);
      for (const family of families) expect(await whoDecides(world(), [changing, family])).toBe('vipnat');
      before = setUp;
    }
  });
});
