import { expect, test } from '@jest/globals';
import { formatEndpoint } from '../../../lib/address/endpoint.ts';
import { listApiservers, vips } from '../../support/network/layout.ts';
import { sendStraySegments } from '../../support/network/stray-segments.ts';
import { useCluster } from '../../support/network/use-cluster.ts';
import { vipnat } from '../../support/host/vipnat.ts';

const connections = 5;
const longestMs = 120_000;

const cluster = useCluster('each test');

/** What becomes of connections through the VIP when their apiserver sends a segment that conntrack calls INVALID on each of them. */
async function holdThroughStrays(host: string): Promise<Record<string, number>> {
  const seat = cluster.seat('outside client');
  const { held, report } = await seat.hold({ host, port: 6443 }, connections, longestMs);
  expect(held).toBe(connections);
  await sendStraySegments(cluster, 'm2', { port: 6443, count: connections });
  seat.settle();
  return (await report).errors;
}

/** Each family and each dialect. */
const cases = [
  { family: 'ipv4', dialect: 'nft' },
  { family: 'ipv4', dialect: 'none' },
  { family: 'ipv6', dialect: 'legacy' },
  { family: 'ipv6', dialect: 'none' },
] as const;

test.each(cases)(
  'a segment that conntrack calls INVALID ends no connection ($family, --iptables $dialect)',
  async ({ family, dialect }) => {
    const host = vips[family];
    const apiserver = listApiservers(family)
      .map(formatEndpoint)
      .filter((text) => /12\]?:/.test(text));
    const args = ['--iptables', dialect, '--vip', host, '--endpoints', apiserver.join()];
    expect((await vipnat(cluster, 'm1', ['run', '--once', ...args])).exitCode).toBe(0);
    expect(await holdThroughStrays(host)).toEqual({});

    // Without the rule, the VIP holder itself answers such a segment.
    const [layer, tool] = family === 'ipv6' ? ['ip6', 'ip6tables'] : ['ip', 'iptables'];
    const flush =
      dialect === 'none' ? `nft flush chain ${layer} vipnat input` : `${tool}-${dialect} -F VIPNAT-INPUT`;
    await cluster.shell('m1', flush);
    expect(await holdThroughStrays(host)).toEqual({ ECONNRESET: connections });
  },
);
