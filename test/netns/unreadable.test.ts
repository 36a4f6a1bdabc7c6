import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { Cluster } from '../network/cluster.ts';
import { vips } from '../network/layout.ts';
import { expectBalanced, startProxies } from './traffic.ts';
import { limitMs, vipnat } from './vipnat.ts';

const vipArguments = ['--vip', vips.ipv4];
const client = { seat: 'outside client', host: vips.ipv4 } as const;

let cluster: Cluster;

beforeEach(async () => {
  cluster = await Cluster.create();
}, limitMs);

afterEach(async () => {
  await (cluster as Cluster | undefined)?.close();
}, limitMs);

const shell = (script: string) => cluster.namespaces.shell(cluster.namespaceOf('m1'), script);
const command = (...args: readonly string[]) => vipnat(cluster, 'm1', args);

test.each(['nft', 'legacy'] as const)(
  'a comment with line breaks that look like rules is read past, and stays: %s',
  async (backend) => {
    await startProxies(cluster, ['m1'], backend, ['ipv4']);
    const comment = 'one\n-A PREROUTING -j VIPNAT\nCOMMIT\n*nat\n"two" \\';
    const add = (chain: string) =>
      shell(`iptables-${backend} -t nat -I ${chain} -m comment --comment '${comment}' -j RETURN`);
    await add('POSTROUTING');
    expect(await command('run', '--once', ...vipArguments)).toMatchObject({ exitCode: 0 });
    await add('KUBE-POSTROUTING');
    expect(await command('check', ...vipArguments)).toMatchObject({ exitCode: 0 });
    await expectBalanced(cluster, client);
    expect(await command('cleanup')).toMatchObject({ exitCode: 0 });
    const left = await shell(`iptables-${backend}-save -t nat`);
    expect(left.match(/^"two"|^\\"two\\" \\\\" -j RETURN$/gm)).toHaveLength(2);
    expect(left.replaceAll('-A PREROUTING -j VIPNAT', '')).not.toContain('VIPNAT');
  },
  limitMs,
);
