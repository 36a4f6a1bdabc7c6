import { type Family } from '../../../lib/net.ts';
import { vips, addressOf } from '../../support/network/layout.ts';
import { useCluster } from '../../support/network/use-cluster.ts';
import { waitUntil } from '../../support/jest/waiting.ts';
import { type Agent, startAgent, vipnat } from '../../support/host/vipnat.ts';
import { describe, test, expect } from '@jest/globals';
import { isFull, onlyFull } from '../../support/jest/extent.ts';
import {
  expectBalanced,
  bothVips,
  allEndpoints,
  holdDuring,
  expectUnharmed,
  heldConnections,
} from './traffic.ts';

const args = [...bothVips, '--endpoints', allEndpoints];
const source = addressOf('m1');
const sourceRoute = `local ${vips.ipv4} dev eth0 proto 118 scope host src ${source}`;
const kernelRoute = `local ${vips.ipv4} dev eth0 proto kernel scope host src ${vips.ipv4}`;
const cluster = useCluster('each test');

const m1 = (script: string) => cluster.shell('m1', script);

/** m1's local routes of the VIP, in the kernel's order. */
async function listRoutes(): Promise<string[]> {
  const text = await m1(`ip -4 route show table local ${vips.ipv4}/32`);
  return text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
}

async function waitForRoutes(...wanted: string[]): Promise<void> {
  let last: string[] = [];
  await waitUntil(
    async () => {
      last = await listRoutes();
      return last.join('\n') === wanted.join('\n');
    },
    () => `m1 has other local routes: ${last.join('\n')}`,
  );
}

/** Agents of the masters that a VIP moves between. */
const startAgents = async (...more: string[]): Promise<Agent[]> =>
  Promise.all(['m1', 'm2'].map((name) => startAgent(cluster, name, [...args, ...more])));

/** A program of m1's own that asks for a VIP. */
const own = (family: Family) => ({ seat: "VIP holder's host", host: vips[family] }) as const;

describe("connections of a VIP's holder to the VIP, when it moves", () => {
  test('go on over IPv4, and the route leaves with the address', async () => {
    const [agent] = await startAgents();
    await waitForRoutes(sourceRoute, kernelRoute);
    expect(agent?.log).toContain(`local clients now connect to ${vips.ipv4} from ${source}`);
    for (const holder of ['m2', 'm1', 'm2']) {
      expectUnharmed(await holdDuring(cluster, own('ipv4'), () => cluster.moveVips(holder)));
      await (holder === 'm2' ? waitForRoutes() : waitForRoutes(sourceRoute, kernelRoute));
    }
  });

  if (isFull)
    test('hang when nobody does anything about it (--local-clients leave)', async () => {
      await startAgents('--local-clients', 'leave');
      expect(await listRoutes()).toEqual([kernelRoute]);
      const { sent, echoes, errors } = await holdDuring(cluster, own('ipv4'), () => cluster.moveVips('m2'));
      expect(errors).not.toHaveProperty('ECONNABORTED');
      expect(echoes).toBeLessThanOrEqual(sent - heldConnections);
    });

  test.each([
    ['over IPv6', 'ipv6' as const, 'm1'],
    ...onlyFull(['over IPv4, where they were open before the agent started', 'ipv4' as const, ''] as const),
  ] as const)('are ended at once %s, so that programs connect again', async (_, family, early) => {
    const start = (name: string) => startAgent(cluster, name, args);
    const [, before] = await Promise.all([start('m2'), early === '' ? null : start(early)]);
    const { opened, errors } = await holdDuring(cluster, own(family), async () => {
      const agent = before ?? (await start('m1'));
      await cluster.moveVips('m2');
      // All that was sent before may have come back.
      await agent.waitForLine(/vipnat ended \d+ stale connections/);
    });
    expect([opened, errors]).toEqual([heldConnections, { ECONNABORTED: heldConnections }]);
    await expectBalanced(cluster, own(family));
  });
});

if (isFull)
  describe('the local route of a VIP', () => {
    test.each(['an agent', 'cleanup'])(
      'that outlived a killed agent and then the VIP leads nobody astray, and goes with %s',
      async (who) => {
        const [agent] = await startAgents();
        await waitForRoutes(sourceRoute, kernelRoute);
        await agent?.stop('SIGKILL');
        expectUnharmed(await holdDuring(cluster, own('ipv4'), () => cluster.moveVips('m2')));
        expect(await listRoutes()).toEqual([sourceRoute]);
        await expectBalanced(cluster, own('ipv4'));
        const warned = await vipnat(cluster, 'm1', ['check', ...args]);
        expect(warned.stdout).toContain(
          `ip route del local ${vips.ipv4} dev eth0 table local proto 118 scope host src ${source}`,
        );
        if (who === 'cleanup') {
          const { exitCode, stderr } = await vipnat(cluster, 'm1', ['cleanup']);
          expect({ exitCode, stderr }).toMatchObject({
            exitCode: 0,
            stderr: expect.stringContaining(
              `removed the local route of ${vips.ipv4} with the source ${source}`,
            ),
          });
        } else await startAgent(cluster, 'm1', args);
        await waitForRoutes();
      },
    );

    test('is shown by plan as a command that does the same, and by status once it is there', async () => {
      const { stdout } = await vipnat(cluster, 'm1', ['plan', ...args]);
      const lines = stdout.split('\n').filter((line) => line.startsWith('ip route '));
      expect(lines).toHaveLength(1);
      await m1(lines.join('\n'));
      expect(await listRoutes()).toEqual([sourceRoute, kernelRoute]);
      const agent = await startAgent(cluster, 'm1', args);
      const status = await vipnat(cluster, 'm1', ['status', ...args]);
      expect(status.stdout).toContain(`this host   connects to ${vips.ipv4}:6443 from ${source}`);
      // A living agent would put the route back, and a stopped one takes it along.
      await agent.stop('SIGKILL');
      const { stdout: dry } = await vipnat(cluster, 'm1', ['cleanup', '--dry-run']);
      await m1(
        dry
          .split('\n')
          .filter((line) => line.startsWith('ip route '))
          .join('\n'),
      );
      expect(await listRoutes()).toEqual([kernelRoute]);
    });
  });
