import { expect, jest, test } from '@jest/globals';
import { vips } from '../../support/network/layout.ts';
import { expectNoneLost, startLoad, useProxiedCluster } from './traffic.ts';
import { limitMs, sleep, startAgent, vipnat, waitForSync } from '../../support/host/vipnat.ts';

jest.setTimeout(2 * limitMs);

/** Stand-ins that wait for the processor are not to be taken for dead. */
const vipArguments = ['--vip', vips.ipv4, '--probe-timeout', '1500ms'];
const restarts = 8;
const lifeMs = 1200;
const cluster = useProxiedCluster('all tests');

test('however often the agent is stopped or killed while an apiserver is frozen, no connection gets to that one', async () => {
  let agent = await startAgent(cluster, 'm1', vipArguments);
  cluster.apiserver('m3').freeze();
  await agent.waitForLine(/10\.77\.0\.13:6443 is draining: /);

  const load = startLoad(cluster, { host: vips.ipv4, port: 6443 }, 100);
  for (let restart = 0; restart < restarts; restart += 1) {
    await agent.stop(restart % 2 === 0 ? 'SIGKILL' : 'SIGTERM');
    agent = await startAgent(cluster, 'm1', vipArguments);
    expect(agent.listLines(/ direct to 10\.77\.0\.11:6443, 10\.77\.0\.12:6443: /)).toHaveLength(1);
    expect(agent.listLines(/ service-chain: |10\.77\.0\.13:6443 is ready/)).toEqual([]);
    await sleep(lifeMs);
  }
  await agent.stop();
  // A process that looks once cannot see that one is frozen; the rules know.
  expect(await vipnat(cluster, 'm1', ['check', ...vipArguments])).toMatchObject({ exitCode: 0 });
  const { apiservers } = await expectNoneLost(load, 1000);
  expect(Object.keys(apiservers).sort()).toEqual(['m1', 'm2']);

  cluster.apiserver('m3').thaw();
  agent = await startAgent(cluster, 'm1', vipArguments);
  await agent.waitForLine(/10\.77\.0\.13:6443 is ready /);
  await agent.waitForLine(/direct -> service-chain: /);
  await waitForSync(cluster, 'm1', vipArguments);
  await agent.stop();
});
