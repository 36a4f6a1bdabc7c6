import { jest, describe, test, expect } from '@jest/globals';
import { limitMs, vipnat } from '../../support/host/vipnat.ts';
import { vips, listApiservers, masters } from '../../support/network/layout.ts';
import { formatEndpoint } from '../../../lib/net.ts';
import { type Dialect, iptablesDialects } from '../../../lib/kernel/port.ts';
import { useCluster } from '../../support/network/use-cluster.ts';
import { startProxies } from './traffic.ts';
import { writesOneChain, rewriteOften } from '../../support/network/rewrites.ts';

jest.setTimeout(2 * limitMs);

const target = { host: vips.ipv4, port: 6443 };
const connections = 2000;
const rewrites = 200;
const requestsPerSecond = 100;

/** How long 200 rewrites may take; what is left of it is measured all the same. */
const durationMs = 12_000;

/** The apiservers but the VIP holder's own: an answer from there got past our rules. */
const others = listApiservers('ipv4').filter(({ address }) => address !== masters[0]?.addresses.ipv4);
const endpoints = others.map(formatEndpoint);

/** Two ways to write the rules, the second of which is the last. */
const toChanges = (dialect: Dialect): [string[], string[]] =>
  dialect === 'nftables'
    ? [
        ['--iptables', 'none', '--mode', 'direct', '--endpoints', endpoints.slice(1).join(',')],
        ['--iptables', 'none', '--mode', 'direct', '--endpoints', endpoints.join(',')],
      ]
    : [
        ['--mode', 'service-chain'],
        ['--mode', 'direct'],
      ];

const allBackends: readonly Dialect[] = [...iptablesDialects, 'nftables'];

describe.each(allBackends)('while our rules are rewritten 200 times, in %s', (dialect) => {
  const vip = ['--vip', vips.ipv4];
  const [first, second] = toChanges(dialect);

  const cluster = useCluster('each test', async () => {
    // Where rules are in a table of our own, there is no kube-proxy: only its word would count.
    if (dialect === 'nftables') return;
    const [kubeProxy] = await startProxies(cluster, ['m1'], dialect, ['ipv4']);
    await kubeProxy?.sync(others);
  });

  /** What `run` would write to go this way, from wherever the rules are now. */
  const planFor = async (change: readonly string[]) =>
    (await vipnat(cluster, 'm1', ['plan', '--format', 'restore', ...change, ...vip])).stdout;

  test('no open connection breaks, no byte is lost, and no new one fails or goes past our rules (I12)', async () => {
    await vipnat(cluster, 'm1', ['run', '--once', ...first, ...vip]);
    const toSecond = await planFor(second);
    await vipnat(cluster, 'm1', ['run', '--once', ...second, ...vip]);
    const toFirst = await planFor(first);
    for (const script of [toFirst, toSecond]) expect(script).toMatch(writesOneChain);

    const { held, report } = await cluster.seat('outside client').hold(target, connections, durationMs);
    expect(held).toBe(connections);
    const measuring = cluster.seat('pod on a worker').requestAtRate(target, requestsPerSecond, durationMs);
    const scripts = [toFirst, toSecond];
    const rewriting = rewriteOften(cluster, { dialect, scripts, count: rewrites, limitMs });

    const { opened, sent, echoes, errors } = await report;
    const { answers } = await measuring;
    expect(await rewriting).toBe(rewrites);
    expect({ opened, errors }).toEqual({ opened: connections, errors: {} });
    expect({ echoes }).toEqual({ echoes: sent });
    expect(sent).toBeGreaterThan(10 * connections);
    expect(answers.filter(({ error }) => error !== undefined)).toEqual([]);
    expect([...new Set(answers.map(({ apiserver }) => apiserver))].sort()).toEqual(['m2', 'm3']);
    expect(answers).toHaveLength((requestsPerSecond * durationMs) / 1000);
    expect(await vipnat(cluster, 'm1', ['check', ...second, ...vip])).toMatchObject({
      exitCode: 0,
    });
  });
});
