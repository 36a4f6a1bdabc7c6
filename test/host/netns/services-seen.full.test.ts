import { describe, expect, test } from '@jest/globals';
import { vipnat, waitUntil } from '../../support/host/vipnat.ts';
import { balanced, useWebService } from './web-service.ts';

const notRunning = (level: string): unknown =>
  expect.objectContaining({ code: 'balancer-not-running', level });

interface Outcome {
  readonly code: string;
  readonly level: string;
  readonly title?: string;
}

describe('what commands tell of Services on a host that has no virtual IP of the API', () => {
  const web = useWebService();

  const run = async (...words: readonly string[]) => await vipnat(web.cluster, 'm1', words);
  const runWithApi = async (...words: readonly string[]) =>
    await run(...words, '--kubeconfig', web.kubeconfig, '--node-name', 'm1');
  const examine = async (...words: readonly string[]) => {
    const { stdout } = await run('doctor', '--json', '--capture', '0s', ...words);
    const outcomes = (JSON.parse(stdout) as { checks: readonly Outcome[] }).checks;
    return outcomes.filter(({ level }) => level === 'warn' || level === 'fail');
  };
  test('nothing, where there are none: a virtual IP is asked for as before', async () => {
    for (const command of ['status', 'check', 'doctor', 'plan']) {
      const { exitCode, stderr } = await run(command);
      expect({ command, exitCode, stderr }).toMatchObject({
        exitCode: 78,
        stderr: expect.stringContaining('no virtual IP given'),
      });
      if (command === 'doctor') expect(stderr).toContain('For a new cluster, choose a free address');
    }
  });

  test('all is well while the balancer runs; it is gone; its table has run out', async () => {
    const balancer = await web.startBalancer(balanced);
    // It first finds out which nodes answer.
    await waitUntil(async () => (await run('status')).exitCode === 0, 'status finds a problem');
    const well = await run('status');
    expect(well).toMatchObject({ exitCode: 0, stderr: '' });
    expect(well.stdout).toMatch(/^Services {4}direct · 1 Service, \d+ elements · follows the API\n/);
    expect(well.stdout).toContain(`balancer    running, pid ${balancer.pid}, since `);
    expect(JSON.parse((await run('status', '--json')).stdout)).toMatchObject({
      vips: [],
      balancer: { balanced: true, running: true, pid: balancer.pid, mode: 'direct', services: 1 },
    });
    expect(await runWithApi('check')).toMatchObject({
      exitCode: 0,
      stdout: 'Services are balanced, and the tables are in sync (direct, 1 Service). Nothing to change.',
    });
    expect((await run('check')).stdout).toContain('were not compared with the Kubernetes API');
    expect(await runWithApi('plan')).toMatchObject({
      exitCode: 0,
      stdout: '',
      stderr: expect.stringContaining('The tables of 1 Service are in sync'),
    });
    expect((await examine()).filter(({ code }) => code.startsWith('balancer-'))).toEqual([]);

    await balancer.stop('SIGKILL');
    await web.letTablesCount('m1', 600);
    const gone = await run('status');
    expect(gone.exitCode).toBe(2);
    expect(gone.stdout).toMatch(/^Services {4}NOT KEPT · no balancer runs · tables count for \d+ s\n/);
    expect(gone.stdout).toContain('balancer    NOT RUNNING: no program renews ip vipnat-lb');
    expect(await examine()).toContainEqual(notRunning('warn'));

    await web.letTablesCount('m1', 0);
    expect((await run('status')).stdout).toMatch(/^Services {4}NOT BALANCED · no balancer runs · kube-proxy/);
    expect(await run('check')).toMatchObject({
      exitCode: 2,
      stdout: expect.stringContaining('drift: table ip vipnat-lb does not count'),
    });
    expect(await examine()).toContainEqual(notRunning('fail'));
  });

  test('a table that somebody changed is drift where the API can be asked, and the plan has what is missing', async () => {
    await (await web.startBalancer(balanced)).stop('SIGKILL');
    await web.shell('m1', 'nft flush map ip vipnat-lb vips');
    const { exitCode, stdout } = await runWithApi('check');
    expect(exitCode).toBe(2);
    expect(stdout).toContain('drift: ip vipnat-lb: 1 command of nft between the table and what');
    const plan = await runWithApi('plan');
    expect(plan.stdout).toContain('add element ip vipnat-lb vips { 10.77.0.60');
    await web.shell('m1', plan.stdout);
    expect((await runWithApi('check')).stdout).not.toContain('commands of nft');
    expect((await web.shell('m1', 'nft list map ip vipnat-lb vips')).includes('10.77.0.60')).toBe(true);
  });
});
