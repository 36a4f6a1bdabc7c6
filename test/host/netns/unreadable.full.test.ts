import { Agent, vipnat, startAgent, vipnatCommand } from '../../support/host/vipnat.ts';
import { useShims } from '../../support/host/shims.ts';
import { useCluster } from '../../support/network/use-cluster.ts';
import { test, expect } from '@jest/globals';
import { onlyFull } from '../../support/jest/extent.ts';
import { shownDialects } from '../../support/jest/pairs.ts';
import { startProxies, expectBalanced, client, vipArguments } from './traffic.ts';
import { sleep } from '../../support/jest/waiting.ts';

let agent: Agent | null = null;
const shims = useShims();
const cluster = useCluster('each test');

const shell = (script: string) => cluster.shell('m1', script);
const command = (...args: readonly string[]) => vipnat(cluster, 'm1', args);

test.each(shownDialects)('a comment that looks like rules is read past, and stays: %s', async (dialect) => {
  await startProxies(cluster, ['m1'], dialect, ['ipv4']);
  const comment = 'one\n-A PREROUTING -j VIPNAT\nCOMMIT\n*nat\n"two" \\';
  const add = (chain: string) =>
    shell(`iptables-${dialect} -t nat -I ${chain} -m comment --comment '${comment}' -j RETURN`);
  await add('POSTROUTING');
  expect(await command('run', '--once', ...vipArguments)).toMatchObject({ exitCode: 0 });
  await add('KUBE-POSTROUTING');
  expect(await command('check', ...vipArguments)).toMatchObject({ exitCode: 0 });
  await expectBalanced(cluster, client);
  expect(await command('cleanup')).toMatchObject({ exitCode: 0 });
  const left = await shell(`iptables-${dialect}-save -t nat`);
  expect(left.match(/^"two"|^\\"two\\" \\\\" -j RETURN$/gm)).toHaveLength(2);
  expect(left.replaceAll('-A PREROUTING -j VIPNAT', '')).not.toContain('VIPNAT');
});

const environment = () => ({ PATH: shims.path });
const withShims = (...args: readonly string[]) => vipnat(cluster, 'm1', args, environment());
test.each(shownDialects)('an IPv6 raw rule whose match is lacking matters to nobody: %s', async (dialect) => {
  await startProxies(cluster, ['m1'], dialect, ['ipv4']);
  await shell(`ip6tables-${dialect} -t raw -A PREROUTING -m u32 --u32 0=0`);
  shims.loseMatch(`ip6tables-${dialect}-save`, 'u32');
  const runs = [['run', '--once'], ['check'], ['plan']].map((words) => [...words, ...vipArguments]);
  for (const args of [...runs, ['cleanup']]) {
    const { exitCode, stderr } = await withShims(...args);
    expect([exitCode, stderr.includes('not read')]).toEqual([0, false]);
  }
});

test('an unreadable table of a family without VIP is one warning, in the log and on every screen, and no more', async () => {
  await startProxies(cluster, ['m1'], 'nft', ['ipv4']);
  await shell('ip6tables-nft -t nat -A PREROUTING -m u32 --u32 0=0; ip6tables-nft -t nat -N VIPNAT');
  shims.loseMatch('ip6tables-nft-save', 'u32');
  const warning =
    /\[TOOL_FAILED\] vipnat cannot read nat of ip6tables-nft \(.*\)\. vipnat does not see there: vipnat/;
  agent = await startAgent(cluster, 'm1', vipArguments, { ...process.env, ...environment() });
  await shell('iptables-nft -t nat -F VIPNAT');
  await agent.waitForLine(/vipnat repaired its rules: /);
  expect(agent.listLines(/vipnat cannot read /)).toHaveLength(1);
  await expectBalanced(cluster, client);
  expect((await withShims('check', ...vipArguments)).stdout).toMatch(warning);
  expect((await withShims('plan', ...vipArguments)).stderr).toMatch(warning);
  expect((await withShims('status', ...vipArguments)).stdout).toMatch(warning);
  const { stdout } = await withShims('doctor', '--json', '--capture', '0s', ...vipArguments);
  const { checks } = JSON.parse(stdout) as { readonly checks: readonly object[] };
  expect(checks).toContainEqual(expect.objectContaining({ code: 'rules-unread', level: 'warn' }));
  shims.clear();
  await shell('iptables-nft -t nat -F VIPNAT');
  await agent.waitForLine(/vipnat can read all rules again/);
  await agent.waitForLine(/surplus|removed|vipnat repaired its rules: .*VIPNAT/);
});

const noNfTables =
  'echo "$0 v1.8.9 (nf_tables): Could not fetch rule set generation id: Invalid argument" >&2; exit 4';

test.each(['auto', ...onlyFull('legacy')])('without nf_tables, --iptables %s balances', async (iptables) => {
  await startProxies(cluster, ['m1'], 'legacy', ['ipv4']);
  for (const tool of ['iptables-nft-save', 'ip6tables-nft-save']) shims.replace(tool, noNfTables);
  shims.replace('nft', 'echo "cache initialization failed: Invalid argument" >&2; exit 1');
  const args = [...vipArguments, '--iptables', iptables];
  const { exitCode, stderr } = await withShims('run', '--once', ...args);
  expect(exitCode).toBe(0);
  expect(stderr).toMatch(
    /\[NF_TABLES_MISSING\] vipnat cannot read iptables-nft, ip6tables-nft, .*\n.*\(service-chain/,
  );
  await expectBalanced(cluster, client);
  const check = await withShims('check', ...args);
  expect(check).toMatchObject({ exitCode: 0, stderr: '' });
  expect(check.stdout).toContain('no such rules exist');
  expect((await withShims('cleanup')).stderr).toContain('removed (nat, iptables-legacy)');
  expect(await shell('iptables-legacy-save')).not.toContain('VIPNAT');
});

/** As iptables 1.8.9 says it of a table that neither the kernel nor a module has. */
const noLegacyTables =
  'cat >/dev/null; echo "iptables-restore v1.8.9 (legacy): iptables-restore: unable to initialize table \'nat\'" >&2; exit 2';

test('a kernel without iptables-legacy is balanced by what it has; --iptables legacy says in one line why it is not, and goes on trying', async () => {
  await startProxies(cluster, ['m1'], 'nft', ['ipv4']);
  shims.replace('iptables-legacy-restore', noLegacyTables);
  const { exitCode, stderr } = await withShims('run', '--once', ...vipArguments);
  expect([exitCode, stderr.includes('not read')]).toEqual([0, false]);
  await expectBalanced(cluster, client);
  expect(await command('cleanup')).toMatchObject({ exitCode: 0 });
  const args = [...vipArguments, '--iptables', 'legacy'];
  const run = vipnatCommand(['run', ...args]);
  agent = new Agent(cluster.start('m1', run, { ...process.env, ...environment() }));
  const why = /unable to initialize table 'nat': .* Leave --iptables out, or load iptable_nat on the host/;
  await agent.waitForLine(why);
  await sleep(3000);
  expect(agent.listLines(why)).toHaveLength(1);
  const url = 'http://127.0.0.1:10268/readyz';
  expect(await shell(`curl --silent --max-time 5 ${url}`)).toMatch(why);
});

test('legacy tables on a host without the legacy tools are left alone, and told', async () => {
  await startProxies(cluster, ['m1'], 'nft', ['ipv4']);
  await shell('iptables-legacy -t nat -N VIPNAT');
  for (const tool of [
    ...['iptables-nft-save', 'iptables-nft-restore', 'ip6tables-nft-save', 'ip6tables-nft-restore'],
    ...['nft', 'inotifywait'],
  ])
    shims.link(tool);
  const run = (...args: readonly string[]) =>
    cluster.run('m1', [...['env', `PATH=${shims.onlyPath}`], ...vipnatCommand(args)]);
  const warning = /\[TOOL_MISSING\] vipnat cannot read iptables-legacy \(iptables-legacy-save is not in PATH/;
  const once = await run('run', '--once', ...vipArguments);
  expect(once.exitCode).toBe(0);
  expect(once.stderr).toMatch(warning);
  await expectBalanced(cluster, client);
  const cleanup = await run('cleanup');
  expect(cleanup.exitCode).toBe(1);
  expect(cleanup.stderr).toMatch(/^removed \(nat, iptables-nft\)/m);
  expect(cleanup.stderr).toMatch(warning);
  expect(await shell('iptables-nft-save')).not.toContain('VIPNAT');
  expect(await command('cleanup')).toMatchObject({
    exitCode: 0,
    stderr: 'removed (nat, iptables-legacy): 1 chain, 0 hooks',
  });
});
