import { describe, jest, test } from '@jest/globals';
import { chooseRounds } from '../../support/jest/extent.ts';
import { sleep } from '../../support/host/vipnat.ts';
import { expectNoneLost, startLoad } from './traffic.ts';
import { balanced, useWebService, vip } from './web-service.ts';

const rounds = chooseRounds(3, 20);

// A round starts vipnat three times.
jest.setTimeout(120_000 + rounds * 45_000);

const waits = /\[BALANCER_ALREADY_RUNNING\] waiting for another balancer/;

describe('a Service with 500 connections a second', () => {
  const web = useWebService();

  test(`loses none while the balancer is killed, restarted and upgraded, ${rounds} times each`, async () => {
    let running = await web.startBalancer(balanced);
    const load = startLoad(web.cluster, { host: vip, port: 80 }, 500);
    for (let round = 0; round < rounds; round += 1) {
      for (const signal of ['SIGKILL', 'SIGTERM'] as const) {
        await running.stop(signal);
        running = await web.startBalancer(balanced);
      }
      // As a rolling update does where both pods are there for a while.
      const next = await web.startBalancer(waits);
      await running.stop();
      await next.waitForLine(balanced);
      running = next;
      await sleep(200);
    }
    const { sent, slowAtMs } = await expectNoneLost(load, 1000);
    process.stderr.write(`${rounds} rounds: ${sent} connections, 0 failed, ${slowAtMs.length} slow\n`);
  });
});
