import { readFileSync } from 'node:fs';
import { describe, expect, afterEach, test } from '@jest/globals';
import { vips } from '../../support/network/layout.ts';
import { type Agent, startAgent, waitForSync } from '../../support/host/vipnat.ts';
import { useCluster } from '../../support/network/use-cluster.ts';

const captures = new URL('../../support/fixtures/captures/', import.meta.url);
/** As many that a fair choice leaves out one of three apiservers once in a million times. */
const clientCount = 40;

/** What a real kube-proxy writes for a Service whose clients stay for three hours. */
const dialects = [
  ['iptables-nft', 'iptables-nft-restore --noflush', 'iptables-nft-save.client-ip-affinity.txt'],
  ['iptables-legacy', 'iptables-legacy-restore --noflush', 'iptables-legacy-save.client-ip-affinity.txt'],
  ['nft', 'nft -f -', 'nft-kube-proxy.client-ip-affinity.txt'],
] as const;

/** Without the counters of kube-proxy, which need objects that no restore makes. */
function readCapture(name: string): string {
  return readFileSync(new URL(name, captures), 'utf8').replaceAll(/^.* nfacct .*\n/gm, '');
}

describe.each(dialects)('clients of a Service with affinity, in mode direct: %s', (_name, tool, capture) => {
  // Stand-ins that wait for the processor are not to be taken for dead: a death moves clients.
  const vipArguments = ['--vip', vips.ipv4, '--mode', 'direct', '--probe-timeout', '1500ms'];
  const clients = Array.from({ length: clientCount }, (_, index) => `10.77.0.${150 + index}`);
  let agent: Agent | undefined;

  const cluster = useCluster('all tests', async () => {
    const result = await cluster.run('m1', tool.split(' '), { input: readCapture(capture) });
    expect(result).toMatchObject({ exitCode: 0 });
    for (const address of clients) await cluster.shell('client', `ip addr add ${address}/24 dev eth0`);
    agent = await startAgent(cluster, 'm1', vipArguments);
  });

  afterEach(() => cluster.shell('m3', 'iptables-nft -F INPUT'));

  /** The one apiserver that each client gets to, however often it asks. */
  async function askAll(): Promise<Map<string, string>> {
    const places = new Map<string, string>();
    for (const address of clients) {
      const { apiservers, errors } = await cluster
        .seat('outside client')
        .requestFrom(address, vips.ipv4, 6443, 4);
      expect([address, errors, Object.keys(apiservers).length]).toEqual([address, {}, 1]);
      places.set(address, Object.keys(apiservers)[0] ?? '');
    }
    return places;
  }

  test('stay with one apiserver each, spread over all; its death moves its own clients, its return moves nobody', async () => {
    const before = await askAll();
    expect(new Set(before.values())).toEqual(new Set(['m1', 'm2', 'm3']));

    await cluster.shell('m3', 'iptables-nft -I INPUT -p tcp --dport 6443 -j REJECT --reject-with tcp-reset');
    await agent?.waitForLine(/changes apiservers, now direct to 10\.77\.0\.11:6443, 10\.77\.0\.12:6443: /);
    const without = await askAll();
    expect(new Set(without.values())).toEqual(new Set(['m1', 'm2']));
    const others = [...before].filter(([, apiserver]) => apiserver !== 'm3');
    expect([...without].filter(([client]) => before.get(client) !== 'm3')).toEqual(others);

    const seen = agent?.log.length ?? 0;
    await cluster.shell('m3', 'iptables-nft -F INPUT');
    await agent?.waitForLine(/changes apiservers, now direct to .*, 10\.77\.0\.13:6443: /, seen);
    await waitForSync(cluster, 'm1', vipArguments);
    expect(await askAll()).toEqual(without);
  });
});
