import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { type Backend, backends } from '../../lib/kernel/port.ts';
import { toolName } from '../../lib/kernel/tool-name.ts';
import { Cluster } from '../network/cluster.ts';
import { listApiservers, masters, vips } from '../network/layout.ts';
import { startProxies } from './traffic.ts';
import { limitMs, vipnat } from './vipnat.ts';

const target = { host: vips.ipv4, port: 6443 };
const connections = 2000;
const rewrites = 200;
const requestsPerSecond = 100;

/** How long 200 rewrites may take; what is left of it is measured all the same. */
const durationMs = 12_000;

describe.each(backends)('while our rules are rewritten 200 times, with iptables-%s', (backend) => {
  let cluster: Cluster;

  beforeEach(async () => {
    cluster = await Cluster.create();
    const [kubeProxy] = await startProxies(cluster, ['m1'], backend, ['ipv4']);
    // Without the holder's own apiserver: an answer from there got past our rules.
    await kubeProxy?.sync(
      listApiservers('ipv4').filter(({ address }) => address !== masters[0]?.addresses.ipv4),
    );
  }, limitMs);

  // Also when the set-up failed half-way.
  afterEach(() => (cluster as Cluster | undefined)?.close(), limitMs);

  /** What `run` would write to go this way, from wherever the rules are now. */
  const planFor = async (mode: string) => {
    const args = ['plan', '--format', 'restore', '--mode', mode, '--vip', vips.ipv4];
    return (await vipnat(cluster, 'm1', args)).stdout;
  };

  test(
    'no open connection breaks, no byte is lost, and no new one fails or goes past our rules (I12)',
    async () => {
      await vipnat(cluster, 'm1', ['run', '--once', '--vip', vips.ipv4]);
      const toDirect = await planFor('direct');
      await vipnat(cluster, 'm1', ['run', '--once', '--vip', vips.ipv4, '--mode', 'direct']);
      const toServiceChain = await planFor('service-chain');
      expect(toDirect).toMatch(/^:VIPNAT-\w{10} .*(?:\n-A VIPNAT-\w{10} .* -j DNAT .*){2}\nCOMMIT/m);
      expect(toServiceChain).toMatch(/^:VIPNAT-\w{10} .*\n-A VIPNAT-\w{10} .* -j KUBE-SVC-\w+\nCOMMIT/m);

      const { held, report } = await cluster.seat('outside client').hold(target, connections, durationMs);
      expect(held).toBe(connections);
      const measuring = cluster.seat('pod on a worker').requestAtRate(target, requestsPerSecond, durationMs);
      const rewriting = rewriteOften(cluster, backend, [toServiceChain, toDirect]);

      const { opened, sent, echoes, errors } = await report;
      const { answers } = await measuring;
      expect(await rewriting).toBe(rewrites);
      expect({ opened, errors }).toEqual({ opened: connections, errors: {} });
      expect({ echoes }).toEqual({ echoes: sent });
      expect(sent).toBeGreaterThan(10 * connections);
      expect(answers.filter(({ error }) => error !== undefined)).toEqual([]);
      expect([...new Set(answers.map(({ apiserver }) => apiserver))].sort()).toEqual(['m2', 'm3']);
      expect(answers).toHaveLength((requestsPerSecond * durationMs) / 1000);
      expect(await vipnat(cluster, 'm1', ['check', '--vip', vips.ipv4, '--mode', 'direct'])).toMatchObject({
        exitCode: 0,
      });
    },
    2 * limitMs,
  );
});

/** Runs both scripts in turn, one restore each; answers how many succeeded. */
async function rewriteOften(cluster: Cluster, backend: Backend, scripts: readonly string[]): Promise<number> {
  const tool = toolName('ipv4', backend, 'restore');
  const program = `
    for round in $(seq ${rewrites / scripts.length}); do
      ${scripts.map((script) => `${tool} --noflush -w 5 <<'END'\n${script}\nEND\necho done`).join('\n')}
    done`;
  const output = await cluster.namespaces.shell(cluster.namespaceOf('m1'), program);
  return output.split('\n').filter((line) => line === 'done').length;
}
