import { fileURLToPath } from 'node:url';
import { useWebService, balanced } from './web-service.ts';
import type { CommandResult } from '../../support/network/namespaces.ts';
import { test, expect } from '@jest/globals';
import { waitUntil } from '../../support/host/vipnat.ts';
import { balancerMetrics, programmingDuration } from '../../../balancer/samples.ts';

const listen = '127.0.0.1:10269';
const healthCheck = fileURLToPath(new URL('../../../scripts/healthcheck.cjs', import.meta.url));
const web = useWebService();

const ask = async (path: string): Promise<string> =>
  await web.shell('m1', `curl -s -w '\n%{http_code}' http://${listen}${path}`);

const check = async (pid: number): Promise<CommandResult> =>
  await web.cluster.run('m1', [process.execPath, healthCheck, String(pid)]);

test('a balancer serves its metrics, and stays alive and ready while the API is away', async () => {
  const balancer = await web.startBalancer(balanced, { words: ['--listen', listen] });
  await waitUntil(async () => (await ask('/metrics')).includes('balancer_mode{'), 'it has no mode');
  const text = await ask('/metrics');
  expect(text).toMatch(/\n200$/);
  for (const name of [...Object.keys(balancerMetrics), programmingDuration.name])
    expect(text).toContain(`# TYPE ${name} `);
  expect(text).toMatch(/^vipnat_balancer_services 1$/m);
  expect(text).toMatch(/^vipnat_balancer_mode\{mode="direct"\} 1$/m);
  expect(text).toMatch(/^vipnat_balancer_api_followed 1$/m);
  expect([await ask('/healthz'), await ask('/readyz')]).toEqual(['ok\n\n200', 'ok\n\n200']);
  const { exitCode, stdout } = await check(balancer.pid);
  expect(exitCode).toBe(0);
  expect(stdout).toMatch(/^healthy: its sync is /);

  await web.killApi();
  await balancer.waitForLine(/vipnat keeps its tables as they are/);
  expect(await ask('/metrics')).toMatch(/^vipnat_balancer_api_followed 0$/m);
  expect([await ask('/healthz'), await ask('/readyz')]).toEqual(['ok\n\n200', 'ok\n\n200']);

  await balancer.stop('SIGKILL');
  expect(await check(process.pid)).toMatchObject({ exitCode: 1, stdout: 'unhealthy: no agent runs here' });
});
