import { type ServicesWorld, stepsMs } from './services-world.ts';
import { test, expect } from '@jest/globals';
import { findFreePort } from '../../support/network/free-port.ts';
import { waitFor } from '../../support/lab/kube-proxy-state.ts';
import { controllerMetrics, drainStart } from '../../../controller/report/metrics.ts';
import { execa } from 'execa';

/** Tests of what a controller serves, asked by HTTP and by the image's health check. */
export function testPages(world: () => ServicesWorld): void {
  test('a controller that waits is alive and ready, and serves the metrics of one that does not lead', async () => {
    const listen = `127.0.0.1:${await findFreePort()}`;
    const controller = world().startController('pages', { listen });
    const ask = async (path: string) => {
      const response = await fetch(`http://${listen}${path}`);
      return { status: response.status, text: await response.text() };
    };
    const readiness = async () => await ask('/readyz').catch(() => null);
    try {
      await waitFor(async () => (await readiness())?.status === 200, stepsMs);
      expect(await readiness()).toMatchObject({ text: expect.stringContaining('ok: it waits for another') });
      expect(await ask('/healthz')).toMatchObject({ status: 200 });
      const { text } = await ask('/metrics');
      for (const name of [...Object.keys(controllerMetrics), drainStart.name])
        expect(text).toContain(`# TYPE ${name} `);
      expect(text).toMatch(/^vipnat_controller_leading 0$/m);
      const check = await execa(process.execPath, ['scripts/healthcheck.cjs', String(controller.pid)], {
        reject: false,
      });
      expect(check).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/^healthy: ok/) });
    } finally {
      world().controllers.delete('pages');
      controller.kill('SIGKILL');
      await controller;
    }
  });
}
