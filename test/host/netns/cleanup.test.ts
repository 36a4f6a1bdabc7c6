import { jest, describe, test, expect } from '@jest/globals';
import { limitMs, vipnat, startAgent } from '../../support/host/vipnat.ts';
import { vips } from '../../support/network/layout.ts';
import { useCluster } from '../../support/network/use-cluster.ts';
import { startProxies, expectBalanced, allEndpoints } from './traffic.ts';
import { dumpRules, strangersScript } from '../../support/host/foreign-rules.ts';
import { onlyFull } from '../../support/jest/extent.ts';

jest.setTimeout(2 * limitMs);

const second = '10.77.0.60';

const cluster = useCluster('each test', async () => {
  await startProxies(cluster, ['m1'], 'nft', ['ipv4', 'ipv6']);
});

const run = (...args: readonly string[]) => vipnat(cluster, 'm1', args);
const flags = (...addresses: readonly string[]) => addresses.flatMap((address) => ['--vip', address]);
const shell = (script: string) => cluster.shell('m1', script);
const readOwn = async () =>
  (await dumpRules(cluster, 'm1')).match(/^.*(?:VIPNAT|vipnat:|table ip6? vipnat).*$/gm) ?? [];

describe.each(['nft', ...onlyFull('legacy', 'none')])('cleanup --vip, with --iptables %s', (iptables) => {
  const options = ['--iptables', iptables, '--mode', 'direct', '--endpoints', allEndpoints];

  test('takes out one virtual IP: the others balance as before and are in sync; the last takes all', async () => {
    await shell(strangersScript);
    const all = [vips.ipv4, second, vips.ipv6];
    expect(await run('run', '--once', ...options, ...flags(...all))).toMatchObject({ exitCode: 0 });
    const whole = await dumpRules(cluster, 'm1');

    const dry = await run('cleanup', '--dry-run', ...flags(second));
    expect(dry).toMatchObject({ exitCode: 0, stderr: expect.stringMatching(/^would remove /) });
    expect(await dumpRules(cluster, 'm1')).toBe(whole);

    expect(await run('cleanup', ...flags(second))).toMatchObject({
      exitCode: 0,
      stderr: expect.stringMatching(/^removed /),
    });
    expect(await dumpRules(cluster, 'm1')).not.toContain(second);
    const left = [vips.ipv4, vips.ipv6];
    expect(await run('check', ...options, ...flags(...left))).toMatchObject({ exitCode: 0 });
    await expectBalanced(cluster, { seat: 'outside client', host: vips.ipv4 });

    for (const address of left)
      expect(await run('cleanup', ...flags(address))).toMatchObject({ exitCode: 0 });
    expect(await readOwn()).toEqual([]);
    expect(await run('cleanup', ...flags(second))).toMatchObject({
      exitCode: 0,
      stderr: expect.stringContaining(`nothing of ${second}:6443 was here`),
    });
  });

  test('what a dry run prints does the same when it is pasted', async () => {
    await run('run', '--once', ...options, ...flags(vips.ipv4, second, vips.ipv6));
    const { stdout } = await run('cleanup', '--dry-run', ...flags(second));
    await shell(stdout);
    const left = flags(vips.ipv4, vips.ipv6);
    expect(await run('check', ...options, ...left)).toMatchObject({ exitCode: 0 });
    await shell((await run('cleanup', '--dry-run')).stdout);
    expect(await readOwn()).toEqual([]);
  });
});

test('an agent that runs would write the rules again: cleanup is refused, a dry run goes on and says so', async () => {
  const agent = await startAgent(cluster, 'm1', flags(vips.ipv4));
  const refused = await run('cleanup', ...flags(vips.ipv4));
  expect(refused).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('[AGENT_ALREADY_RUNNING]') });
  expect(await run('cleanup', '--dry-run')).toMatchObject({
    exitCode: 0,
    stdout: expect.stringContaining('Nothing was written.'),
    stderr: expect.stringContaining('stop it before cleanup'),
  });
  expect(await run('check', ...flags(vips.ipv4))).toMatchObject({ exitCode: 0 });
  await agent.stop();
});

test('a virtual IP in a variable does not narrow cleanup', async () => {
  await run('run', '--once', ...flags(vips.ipv4, second));
  await vipnat(cluster, 'm1', ['cleanup'], { VIPNAT_VIP: second });
  expect(await readOwn()).toEqual([]);
});
