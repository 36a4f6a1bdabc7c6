import { families } from '../../../lib/net.ts';
import { vips, addressOf } from '../../support/network/layout.ts';
import { useShims } from '../../support/host/shims.ts';
import { useCluster } from '../../support/network/use-cluster.ts';
import { describe, beforeEach, test, expect } from '@jest/globals';
import { vipnatCommand, Agent, startAgent, vipnat, waitForSync } from '../../support/host/vipnat.ts';
import { seatNames } from '../../support/network/cluster.ts';
import {
  expectBalanced,
  expectAnswers,
  expectNoneLost,
  startLoad,
  createProxies,
  startProxies,
  client,
  bothVips,
  allEndpoints,
} from './traffic.ts';

const args = [...bothVips, '--endpoints', allEndpoints];
const shims = useShims();
const cluster = useCluster('each test');

const shell = (script: string) => cluster.shell('m1', script);

describe('a host without any iptables', () => {
  beforeEach(() => {
    for (const tool of ['nft', 'inotifywait']) shims.link(tool);
  });

  const toCommand = (words: readonly string[], path = shims.onlyPath) => [
    ...['env', `PATH=${path}`],
    ...vipnatCommand(words),
  ];
  const run = (words: readonly string[], path?: string) => cluster.run('m1', toCommand(words, path));

  test('is balanced from every seat, repaired when somebody empties the table, and in sync', async () => {
    const agent = new Agent(cluster.start('m1', toCommand(['run', ...args])));
    await agent.waitForLine(/ direct to /);
    for (const seat of seatNames)
      for (const family of families) await expectBalanced(cluster, { seat, host: vips[family] });
    for (const table of ['ip', 'ip6']) {
      await shell(`nft flush chain ${table} vipnat prerouting`);
      await agent.waitForLine(
        new RegExp(`vipnat repaired its rules: prerouting lacks .* \\(${table} vipnat, nft\\)`),
      );
    }
    await shell('nft delete table ip vipnat');
    await agent.waitForLine(/vipnat repaired its rules: table ip vipnat does not exist/);
    await expectBalanced(cluster, client);
    expect(await run(['check', ...args])).toMatchObject({ exitCode: 0 });
    // A tool may be late on a busy machine; nothing is missing that it says it needs.
    const expected = / vipnat repaired its rules: |\[TOOL_TIMED_OUT\]/;
    expect(agent.listLines(/ (?:error|warn) /).filter((line) => !expected.test(line))).toEqual([
      expect.stringContaining('vipnat found no CA of the cluster'),
    ]);
  });

  test('gets from plan the commands that do the same, from check what is wrong, and from cleanup a clean host', async () => {
    const { stdout } = await run(['plan', ...args]);
    await shell(stdout);
    // Pasted twice, they add nothing twice; the route is there already.
    await shell(`set +e\n${stdout}\ntrue\n`);
    expect(await run(['check', ...args])).toMatchObject({ exitCode: 0 });
    await expectBalanced(cluster, client);

    await shell('nft delete chain ip vipnat forward');
    const check = await run(['check', ...args]);
    expect(check).toMatchObject({ exitCode: 2 });
    expect(check.stdout).toContain('drift: chain forward does not exist (ip vipnat, nft)');
    expect(check.stdout).toContain('a FORWARD policy of DROP drops connections');
    expect(await run(['run', '--once', ...args])).toMatchObject({ exitCode: 0 });
    expect(await run(['check', ...args])).toMatchObject({ exitCode: 0 });

    await shell(
      "nft 'add table inet strict; add chain inet strict pass { type filter hook forward priority 0; policy drop; }'",
    );
    const warned = await run(['check', ...args]);
    expect(warned).toMatchObject({ exitCode: 0 });
    expect(warned.stdout).toContain('warning: chain pass of table inet strict drops forwarded packets');
    await shell(/(nft insert rule .*)$/m.exec(warned.stdout)?.[1] ?? 'false');
    await expectBalanced(cluster, client);
    await shell('nft delete table inet strict');

    const cleanup = await run(['cleanup']);
    expect(cleanup.stderr.split('\n')).toEqual([
      'removed the table (ip vipnat, nft)',
      'removed the table (ip6 vipnat, nft)',
      `removed the local route of ${vips.ipv4} with the source ${addressOf('m1')}`,
    ]);
    expect(await shell('nft list ruleset')).toBe('');
    await expectAnswers(cluster, client, ['m1']);
  });

  test('is written to by an nft that cannot read from a socket, as nft 0.9.8 and 1.1.7', async () => {
    const nft = `${shims.onlyPath}/nft-itself`;
    shims.link('nft', 'nft-itself');
    for (const tool of ['sh', 'cat']) shims.link(tool);
    shims.replace(
      'nft',
      `if [ "$1" = -f ] && [ -S /dev/stdin ]; then
          echo 'internal:0:0-0: Error: Could not open file "/dev/stdin": No such device or address' >&2
          exit 1
        fi
        exec ${nft} "$@"`,
    );
    expect(await run(['run', '--once', ...args])).toMatchObject({ exitCode: 0 });
    await expectBalanced(cluster, client);
  });
});

describe('kube-proxy in nftables mode', () => {
  const proxies = () => createProxies(cluster, ['m1'], 'nft', families);

  test('where iptables drops what is forwarded, iptables lets through what is balanced', async () => {
    await Promise.all(proxies().map((proxy) => proxy.syncNftables()));
    await shell('iptables-nft -P FORWARD DROP; ip6tables-legacy -P FORWARD DROP');
    await startAgent(cluster, 'm1', bothVips);
    for (const family of families)
      await expectBalanced(cluster, { seat: 'outside client', host: vips[family] });
    expect(await shell('iptables-nft-save; ip6tables-legacy-save')).not.toMatch(/^:VIPNAT-\w{10} /m);
    expect(await vipnat(cluster, 'm1', ['check', ...bothVips])).toMatchObject({ exitCode: 0 });
  });

  test('takes over from iptables mode and hands back under load: nothing fails, and nothing of the other dialect stays', async () => {
    await startProxies(cluster, ['m1'], 'nft', families);
    const agent = await startAgent(cluster, 'm1', bothVips);
    const load = startLoad(cluster, { host: client.host, port: 6443 }, 50);

    await Promise.all(proxies().map((proxy) => proxy.cleanUp()));
    await Promise.all(proxies().map((proxy) => proxy.syncNftables()));
    await agent.waitForLine(/service-chain -> direct to /);
    await waitForSync(cluster, 'm1', bothVips);
    expect(await shell('nft list tables')).toContain('table ip vipnat');
    expect(await shell('iptables-nft-save')).not.toContain('VIPNAT');

    await shell('nft delete table ip kube-proxy; nft delete table ip6 kube-proxy');
    await Promise.all(proxies().map((proxy) => proxy.sync()));
    await agent.waitForLine(/direct -> service-chain: /);
    await waitForSync(cluster, 'm1', bothVips);
    expect(await shell('nft list tables')).not.toContain('vipnat');

    await expectNoneLost(load, 50);
    await expectBalanced(cluster, client);
  });
});
