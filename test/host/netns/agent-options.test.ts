import { expect, jest, test } from '@jest/globals';
import { useCluster } from '../../support/network/use-cluster.ts';
import { vips } from '../../support/network/layout.ts';
import { startProxies } from './traffic.ts';
import { limitMs, startAgent, vipnat, vipnatCommand, waitUntil } from '../../support/host/vipnat.ts';

jest.setTimeout(2 * limitMs);

const cluster = useCluster('each test', async () => {
  await startProxies(cluster, ['m1'], 'nft', ['ipv4']);
});

const run = (...args: readonly string[]) => vipnat(cluster, 'm1', args);

test('beside an agent no diagnostic needs options: all have its own, and what is given otherwise is said', async () => {
  const agent = await startAgent(cluster, 'm1', ['--vip', vips.ipv4, '--mode', 'direct']);
  const note = `the running agent (pid ${agent.pid}) has --vip=${vips.ipv4}:6443 --mode=direct`;
  expect(await run('check')).toMatchObject({ exitCode: 0, stderr: expect.stringContaining(note) });
  expect(await run('status')).toMatchObject({ exitCode: 0, stderr: expect.stringContaining(note) });
  expect(await run('plan')).toMatchObject({ exitCode: 0, stdout: '' });
  expect((await run('doctor', '--capture', '0s')).stderr).toContain(note);
  const asUser = ['setpriv', '--reuid', '65534', '--regid', '65534', '--clear-groups'];
  const unprivileged = await cluster.run('m1', [...asUser, ...vipnatCommand(['check'])]);
  expect(unprivileged.stderr).toContain('[TOOL_NOT_PERMITTED]');
  expect(await run('check', '--vip', vips.ipv4)).toMatchObject({ exitCode: 0, stderr: '' });
  expect(await run('check', '--mode', 'service-chain')).toMatchObject({
    exitCode: 2,
    stderr: expect.stringContaining('--mode=service-chain is taken, but the running agent has --mode=direct'),
  });
  await agent.stop();
  expect(await run('check')).toMatchObject({
    exitCode: 78,
    stderr: expect.stringContaining('[CONFIG_INVALID] no virtual IP given, and no agent runs here'),
  });
});

test("who is not root and holds the agent's name has nothing planned", async () => {
  const answer = JSON.stringify({
    options: { vip: ['10.77.0.99:443'], mode: ['direct'], endpoints: ['203.0.113.7:443'] },
    ...{ version: '1', pid: 1, since: 'now' },
  });
  const script = `require('http').createServer((_, r) => r.end(${JSON.stringify(answer)})).listen('\\0vipnat-agent', () => console.error('up'))`;
  const asUser = ['setpriv', '--reuid', '65534', '--regid', '65534', '--clear-groups'];
  const command = [...asUser, process.execPath, '-e', script];
  const stranger = cluster.start('m1', command);
  let said = '';
  stranger.stderr?.on('data', (text: Buffer) => (said += text.toString()));
  await waitUntil(
    () => said.includes('up'),
    () => `the stranger does not listen: ${said}`,
  );
  expect(await run('plan')).toMatchObject({
    exitCode: 78,
    stdout: '',
    stderr: expect.stringContaining("may not be root's"),
  });
  const { stdout, stderr } = await run('plan', '--vip', vips.ipv4);
  expect(`${stdout}${stderr}`).not.toMatch(/203\.0\.113\.7|10\.77\.0\.99/);
  stranger.kill();
});
