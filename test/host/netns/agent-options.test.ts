import { expect, jest, test } from '@jest/globals';
import { vips } from '../../support/network/layout.ts';
import { useProxiedCluster } from './traffic.ts';
import { limitMs, vipnat, waitUntil } from '../../support/host/vipnat.ts';

jest.setTimeout(2 * limitMs);

const cluster = useProxiedCluster('each test');

const run = (...args: readonly string[]) => vipnat(cluster, 'm1', args);

test("who is not root and holds the agent's name has nothing planned", async () => {
  const answer = JSON.stringify({
    options: { vip: ['10.77.0.99:443'], mode: ['direct'], endpoints: ['203.0.113.7:443'] },
    ...{ version: '1', pid: 1, since: 'now' },
  });
  const script = `require('http').createServer((_, r) => r.end(${JSON.stringify(answer)})).listen('\\0vipnat-agent', () => console.error('up'))`;
  const asUser = ['setpriv', '--reuid', '65534', '--regid', '65534', '--clear-groups'];
  const stranger = cluster.start('m1', [...asUser, process.execPath, '-e', script]);
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
