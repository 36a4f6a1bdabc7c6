import { useCluster } from '../../support/network/use-cluster.ts';
import { vipnat } from '../../support/host/vipnat.ts';
import { expect, describe, test } from '@jest/globals';
import { pairs } from '../../support/jest/pairs.ts';
import { toolName, type IptablesDialect } from '../../../lib/kernel/port.ts';
import { serviceChain } from '../../../lib/kube-proxy/read.ts';
import { startProxies, expectBalanced } from './traffic.ts';
import { listApiservers, vips } from '../../support/network/layout.ts';
import { formatEndpoint, families } from '../../../lib/net.ts';
import { dumpRules } from '../../support/host/foreign-rules.ts';

const familyToVip = { ipv4: '172.16.64.58', ipv6: 'fd00:172::58' };
const familyToClusterIp = { ipv4: '10.244.255.1', ipv6: 'fd00:244:255::1' };
const cluster = useCluster('each test');

const run = (command: readonly string[], input = '') => cluster.run('m1', command, { input });
const shell = (script: string) => cluster.shell('m1', script);

/** What `plan --offline` prints; it reads nothing and says nothing else. */
async function planOffline(...args: string[]): Promise<string> {
  const { exitCode, stdout, stderr } = await vipnat(cluster, 'm1', ['plan', '--offline', ...args]);
  expect({ args, exitCode, stderr }).toEqual({ args, exitCode: 0, stderr: '' });
  return `${stdout}\n`;
}

describe.each(pairs)('the restore stream of plan --offline: %s, iptables-%s', (family, dialect) => {
  const restore = toolName(family, dialect, 'restore');
  const args = ['--vip', familyToVip[family], '--iptables', dialect, '--format', 'restore'];

  test('for iptables mode is accepted where kube-proxy has its chain, and by iptables-legacy nowhere else', async () => {
    const stream = await planOffline(...args, '--proxy-mode', 'iptables');
    expect(stream).toContain(serviceChain);
    const { exitCode, stderr } = await run([restore, '--test', '--noflush'], stream);
    // iptables-nft leaves that to the kernel, which a test does not ask.
    expect({ isAccepted: exitCode === 0, stderr }).toEqual(
      dialect === 'nft' ? { isAccepted: true, stderr: '' } : { isAccepted: false, stderr: expect.anything() },
    );

    await startProxies(cluster, ['m1'], dialect, [family]);
    expect(await run([restore, '--test', '--noflush'], stream)).toMatchObject({ exitCode: 0, stderr: '' });
    expect(await run([restore, '--noflush'], stream)).toMatchObject({ exitCode: 0, stderr: '' });
  });

  test.each([
    ['ipvs', ['--proxy-mode', 'ipvs', '--cluster-ip', familyToClusterIp[family]]],
    ['none', ['--proxy-mode', 'none', '--endpoints', listApiservers(family).map(formatEndpoint).join(',')]],
  ])('for kube-proxy mode %s is accepted everywhere, tested and for good', async (_mode, modeArguments) => {
    const stream = await planOffline(...args, ...modeArguments);
    expect(stream).toContain('-j DNAT --to-destination');
    expect(await run([restore, '--test'], stream)).toMatchObject({ exitCode: 0, stderr: '' });
    expect(await run([restore, '--noflush'], stream)).toMatchObject({ exitCode: 0, stderr: '' });
  });
});

test.each(families)('the nft script of plan --offline balances as nft runs it: %s', async (family) => {
  const endpoints = listApiservers(family).map(formatEndpoint).join(',');
  const args = ['--vip', vips[family], '--proxy-mode', 'nftables', '--endpoints', endpoints];
  const script = await planOffline(...args, '--format', 'nft');
  expect(await run(['nft', '--check', '--file', '-'], script)).toMatchObject({ exitCode: 0, stderr: '' });
  expect(await shell('nft list ruleset')).toBe('');

  expect(await run(['nft', '--file', '-'], script)).toMatchObject({ exitCode: 0, stderr: '' });
  const once = await shell('nft list ruleset');
  expect(await run(['nft', '--file', '-'], script)).toMatchObject({ exitCode: 0, stderr: '' });
  expect(await shell('nft list ruleset')).toBe(once);
  await expectBalanced(cluster, { seat: 'outside client', host: vips[family] });
  await expectBalanced(cluster, { seat: "VIP holder's host", host: vips[family] });
});

describe.each(pairs)('the commands of plan, pasted into a shell: %s, iptables-%s', (family, dialect) => {
  const vipArguments = ['--vip', vips[family]];

  test('give on an untouched host exactly the rules of run --once, which then has nothing to do', async () => {
    await startProxies(cluster, ['m1', 'm2'], dialect, [family]);
    // Chains of the kernel's are listed by their age, and run --once makes missing ones first.
    for (const machine of ['m1', 'm2'])
      await cluster.run(machine, [...[toolName(family, dialect), '-P', 'INPUT', 'ACCEPT']]);
    // Offline, kube-proxy's chain names no apiserver: the rules about replies need --endpoints.
    const endpoints = listApiservers(family).map(formatEndpoint).join(',');
    const mode = ['--proxy-mode', 'iptables', '--iptables', dialect, '--endpoints', endpoints];
    await expectSameAsRun(await planOffline(...vipArguments, ...mode), vipArguments);
  });

  test('do the same from what they find there, broken rules of ours included', async () => {
    await startProxies(cluster, ['m1', 'm2'], dialect, [family]);
    for (const machine of ['m1', 'm2']) await breakRules(machine, dialect, vipArguments);
    const { stdout } = await vipnat(cluster, 'm1', ['plan', ...vipArguments]);
    await expectSameAsRun(stdout, vipArguments);
  });

  /** An old direct plan, with a hook gone and a stranger's rule in it. */
  const breakRules = async (machine: string, of: IptablesDialect, args: readonly string[]) => {
    const tool = toolName(family, of);
    const once = 'run --once --mode direct --masquerade kube-mark'.split(' ');
    await vipnat(cluster, machine, [...once, ...args]);
    await cluster.shell(
      machine,
      `${tool} -t nat -A VIPNAT -p udp -j RETURN
       ${tool} -t nat -S OUTPUT | grep -- '-j VIPNAT' | sed s/-A/-D/ | xargs ${tool} -t nat`,
    );
  };
});

/** Runs the commands twice on m1 and `run --once` on m2: both have the same rules then. */
async function expectSameAsRun(commands: string, args: readonly string[]): Promise<void> {
  await shell(commands);
  // What is gone already cannot be deleted again.
  await shell(`set +e\n${commands}\ntrue\n`);
  expect(await vipnat(cluster, 'm1', ['check', ...args])).toMatchObject({ exitCode: 0, stderr: '' });
  expect(await vipnat(cluster, 'm2', ['run', '--once', ...args])).toMatchObject({ exitCode: 0 });
  expect(await dumpRules(cluster, 'm1')).toBe(await dumpRules(cluster, 'm2'));
}
