import { describe, expect, afterEach, test } from '@jest/globals';
import { vips } from '../../support/network/layout.ts';
import { type Agent, startAgent, waitForSync } from '../../support/host/vipnat.ts';
import { useCluster } from '../../support/network/use-cluster.ts';
import { readCapture } from '../../support/kube-proxy/read-capture.ts';
import { addClients, askFromAll } from './traffic.ts';

/** What a real kube-proxy writes for a Service whose clients stay for three hours. */
const dialects = [
  ['iptables-nft', 'iptables-nft-restore --noflush', 'iptables-nft-save.client-ip-affinity.txt'],
  ['iptables-legacy', 'iptables-legacy-restore --noflush', 'iptables-legacy-save.client-ip-affinity.txt'],
  ['nft', 'nft -f -', 'nft-kube-proxy.client-ip-affinity.txt'],
] as const;

describe.each(dialects)('clients of a Service with affinity, in mode direct: %s', (_name, tool, capture) => {
  // Stand-ins that wait for the processor are not to be taken for dead: a death moves clients.
  const vipArguments = ['--vip', vips.ipv4, '--mode', 'direct', '--probe-timeout', '1500ms'];
  let agent: Agent | undefined;

  const cluster = useCluster('all tests', async () => {
    // Without the counters of kube-proxy, which need objects that no restore makes.
    const input = readCapture(capture).replaceAll(/^.* nfacct .*\n/gm, '');
    const result = await cluster.run('m1', tool.split(' '), { input });
    expect(result).toMatchObject({ exitCode: 0 });
    await addClients(cluster);
    agent = await startAgent(cluster, 'm1', vipArguments);
  });

  afterEach(() => cluster.shell('m3', 'iptables-nft -F INPUT'));

  test('stay with one apiserver each, spread over all; its death moves its own clients, its return moves nobody', async () => {
    const before = await askFromAll(cluster);
    expect(new Set(before.values())).toEqual(new Set(['m1', 'm2', 'm3']));

    await cluster.shell('m3', 'iptables-nft -I INPUT -p tcp --dport 6443 -j REJECT --reject-with tcp-reset');
    await agent?.waitForLine(/changes apiservers, now direct to 10\.77\.0\.11:6443, 10\.77\.0\.12:6443: /);
    const without = await askFromAll(cluster);
    expect(new Set(without.values())).toEqual(new Set(['m1', 'm2']));
    const others = [...before].filter(([, apiserver]) => apiserver !== 'm3');
    expect([...without].filter(([client]) => before.get(client) !== 'm3')).toEqual(others);

    const seen = agent?.log.length ?? 0;
    await cluster.shell('m3', 'iptables-nft -F INPUT');
    await agent?.waitForLine(/changes apiservers, now direct to .*, 10\.77\.0\.13:6443: /, seen);
    await waitForSync(cluster, 'm1', vipArguments);
    expect(await askFromAll(cluster)).toEqual(without);
  });
});
