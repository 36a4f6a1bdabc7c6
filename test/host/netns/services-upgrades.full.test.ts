import { describe, expect, test } from '@jest/globals';
import { chooseRounds } from '../../support/jest/extent.ts';
import { sleep } from '../../support/host/vipnat.ts';
import { balanced, useWebService, vip } from './web-service.ts';

const rounds = chooseRounds(3, 20);

/** A round starts vipnat three times. */
const limitMs = 120_000 + rounds * 45_000;

const waits = /\[BALANCER_ALREADY_RUNNING\] waiting for another balancer/;

describe('a Service with 500 connections a second', () => {
  const web = useWebService();

  test(
    `loses none while the balancer is killed, restarted and upgraded, ${rounds} times each`,
    async () => {
      let running = await web.world.startBalancer(balanced);
      const load = web.cluster
        .seat('outside client')
        .connectAtRate({ host: vip, port: 80, perSecond: 500, durationMs: limitMs, isNamed: true });
      for (let round = 0; round < rounds; round += 1) {
        for (const signal of ['SIGKILL', 'SIGTERM'] as const) {
          await running.stop(signal);
          running = await web.world.startBalancer(balanced);
        }
        // As a rolling update does where both pods are there for a while.
        const next = await web.world.startBalancer(waits);
        await running.stop();
        await next.waitForLine(balanced);
        running = next;
        await sleep(200);
      }
      web.cluster.seat('outside client').settle();
      const { sent, failures, slowAtMs } = await load;
      const figures = `${sent} connections, ${failures.length} failed, ${slowAtMs.length} slow`;
      process.stderr.write(`services-upgrades.test.ts: ${rounds} rounds: ${figures}\n`);
      expect({ failed: failures.length, first: failures.slice(0, 3) }).toEqual({ failed: 0, first: [] });
      expect(sent).toBeGreaterThan(1000);
    },
    limitMs,
  );
});
