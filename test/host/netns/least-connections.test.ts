import { vips } from '../../support/network/layout.ts';
import { type Agent, vipnat, startAgent, waitForSync, limitMs } from '../../support/host/vipnat.ts';
import { useCluster } from '../../support/network/use-cluster.ts';
import { test, expect } from '@jest/globals';
import { onlyFull } from '../../support/jest/extent.ts';
import { endpoints } from './traffic.ts';

const host = vips.ipv4;
const args = ['--vip', host, '--endpoints', endpoints, '--method', 'lc'];
const back = '10.77.0.13:6443';

/** As long as one apiserver is down, and as many after it came back. */
const connections = 1000;

/** Of those after it: 58 of 100 come to it, 33 of 100 would by chance. Neither gets here once in 100,000 times. */
const leastComing = 456;

/** 40 % of all of them: nobody has more. 36 % are expected, and 300 connections at a time went over it once in fifty times. */
const mostOfAll = 800;

let agent: Agent;

const cluster = useCluster('each test');

async function readBackends(): Promise<Map<string, { readonly flows: number; readonly share: number }>> {
  const { stdout } = await vipnat(cluster, 'm1', ['status', ...args, '--json']);
  const { vips: seen } = JSON.parse(stdout) as {
    vips: { backends: { address: string; flows: number; share: number }[] }[];
  };
  return new Map(seen.flatMap(({ backends }) => backends.map((one) => [one.address, one])));
}

test.each(['nft', ...onlyFull('none')])(
  'with --method lc an apiserver that comes back gets more new connections, and no open one ends (iptables %s)',
  async (iptables) => {
    const all = [...args, '--iptables', iptables];
    agent = await startAgent(cluster, 'm1', all);
    try {
      await waitForSync(cluster, 'm1', all);
      await cluster.apiserver('m3').kill();
      await agent.waitForLine(/now direct to 10\.77\.0\.11:6443, 10\.77\.0\.12:6443:/);
      const target = { host, port: 6443 };
      const first = cluster.seat('outside client');
      const early = await first.hold(target, connections, limitMs);
      const from = agent.log.length;
      await cluster.apiserver('m3').start();
      await agent.waitForLine(/now direct to .*10\.77\.0\.13:6443 \(5\d %\)/, from);
      const second = cluster.seat('pod on a worker');
      const late = await second.hold(target, connections, limitMs);
      const backends = await readBackends();
      expect(backends.get(back)?.flows).toBeGreaterThan(leastComing);
      const flows = [...backends.values()].map((one) => one.flows);
      // Chance makes it 42 % on average.
      expect(Math.max(...flows)).toBeLessThanOrEqual(mostOfAll);
      // What the agent has written is what any other process wants.
      expect(await vipnat(cluster, 'm1', ['check', ...all])).toMatchObject({ exitCode: 0 });
      first.settle();
      second.settle();
      expect((await early.report).errors).toEqual({});
      expect((await late.report).errors).toEqual({});
    } finally {
      await agent.stop();
    }
  },
);
