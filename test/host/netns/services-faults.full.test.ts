import { describe, expect, test } from '@jest/globals';
import { sleep, waitUntil } from '../../support/host/vipnat.ts';
import { balanced, listWeb, useWebService, vip } from './web-service.ts';
import { startLoad } from './traffic.ts';

describe('a Service', () => {
  const world = useWebService();

  const { cluster } = world;

  const ask = (count: number) => cluster.seat('outside client').greet(vip, 80, count);

  const listTable = () => world.shell('m1', 'nft -n -a list table ip vipnat-lb');
  const readHandle = async () => /# handle \d+/.exec(await listTable())?.[0];

  test('loses no connection while its pods come and go, and while the balancer is killed and started again', async () => {
    await world.startBalancer(balanced);
    const load = startLoad(cluster, { host: vip, port: 80 }, 500);
    for (let round = 0; round < 5; round += 1) {
      for (const without of [[0], [1, 2], [2], []]) {
        await world.put(...listWeb({ without }));
        await sleep(60);
      }
    }
    const handle = await readHandle();
    const changedAt = performance.timeOrigin + performance.now();
    for (let round = 0; round < 3; round += 1) {
      await world.stopBalancers('SIGKILL');
      await world.startBalancer(balanced);
    }
    // The table of a former life is taken over, and not written again.
    expect(await readHandle()).toBe(handle);
    await sleep(500);
    const { sent, failures, lostSyns, startedAt } = await load.end();
    // A pod that is gone takes an answer with it that is still under way, for its connection is forgotten.
    const lost = failures.filter(({ isConnected, atMs }) => !isConnected || startedAt + atMs > changedAt);
    expect({ lost, lostSyns }).toEqual({ lost: [], lostSyns: 0 });
    // Of twenty changes, each with few answers under way.
    expect(failures.length - lost.length).toBeLessThan(sent / 20);
    expect(sent).toBeGreaterThan(500);
  });

  test('is balanced as before while the API is away, and again as the API says when it is back', async () => {
    const balancer = await world.startBalancer(balanced);
    await world.killApi();
    await balancer.waitForLine(/vipnat keeps its tables as they are/);
    // Longer than the rules count without the balancer.
    await sleep(35_000);
    const { apiservers, errors } = await ask(60);
    expect({ errors, count: Object.keys(apiservers).length }).toEqual({ errors: {}, count: 3 });
  });

  test('is balanced by nobody half a minute after the balancer was killed', async () => {
    await world.startBalancer(balanced);
    await world.stopBalancers('SIGKILL');
    expect((await ask(30)).errors).toEqual({});
    await sleep(31_000);
    expect((await ask(5)).apiservers).toEqual({});
  });

  test('is balanced again when somebody removes the table', async () => {
    const balancer = await world.startBalancer(balanced);
    await world.shell('m1', 'nft flush ruleset');
    await balancer.waitForLine(/another program removed or replaced a table of vipnat/);
    await waitUntil(async () => (await ask(5)).errors['ECONNREFUSED'] === undefined, 'the table is not back');
  });
});
