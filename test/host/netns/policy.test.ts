import { useShims } from '../../support/host/shims.ts';
import { TemporaryFolder } from '../../support/network/at-end.ts';
import { useCluster } from '../../support/network/use-cluster.ts';
import { afterAll, test, expect } from '@jest/globals';
import { vipnatCommand } from '../../support/host/vipnat.ts';
import { onlyFull } from '../../support/jest/extent.ts';
import { join } from 'node:path';
import { existsSync, readFileSync } from 'node:fs';
import { bothVips, allEndpoints } from './traffic.ts';

const once = ['run', '--once', '--iptables', 'nft', ...bothVips, '--endpoints', allEndpoints];
const shims = useShims();
const folder = new TemporaryFolder('policy');
const cluster = useCluster('each test');

afterAll(() => {
  folder.remove();
});

const run = (command: readonly string[]) => cluster.run('m1', command);
const shell = (script: string) => cluster.shell('m1', script);

// iptables-nft would make a chain that is missing with the policy ACCEPT, over whoever makes it at the same moment with DROP.
const tools = [['iptables', 'ip'], ...onlyFull(['ip6tables', 'ip6'])];
test.each(tools)("%s has none of the kernel's chains to make", async (tool, layer) => {
  const seen = join(folder.path, layer);
  shims.wrap(
    `${tool}-nft-restore`,
    `[ -e ${seen} ] || nft list chains ${layer} > ${seen}\nexec "$TOOL" "$@"`,
  );
  await shell('nft flush ruleset');
  const { exitCode, stderr } = await run(['env', `PATH=${shims.path}`, ...vipnatCommand(once)]);
  expect({ exitCode, stderr }).toMatchObject({ exitCode: 0 });
  expect(existsSync(seen)).toBe(true);
  expect([...readFileSync(seen, 'utf8').matchAll(/type (\w+ hook \w+)/g)].map(([, hook]) => hook)).toEqual(
    expect.arrayContaining(['nat hook prerouting', 'nat hook output', 'nat hook postrouting']),
  );
});

test('a policy that is there stays, through our rules and their removal', async () => {
  await shell('iptables-nft -P FORWARD DROP; iptables-nft -P OUTPUT ACCEPT');
  expect((await run(vipnatCommand(once))).exitCode).toBe(0);
  const { stdout } = await run(['iptables-nft', '-S', 'FORWARD']);
  expect(stdout).toMatch(/^-P FORWARD DROP\n-A FORWARD .*-j VIPNAT-FORWARD$/);
  await run(vipnatCommand(['cleanup']));
  expect((await run(['iptables-nft', '-S', 'FORWARD'])).stdout).toBe('-P FORWARD DROP');
});

test('a host without nft is balanced all the same', async () => {
  for (const tool of ['iptables', 'ip6tables'])
    for (const action of ['save', 'restore']) shims.link(`${tool}-nft-${action}`);
  expect((await run(['env', `PATH=${shims.onlyPath}`, ...vipnatCommand(once)])).exitCode).toBe(0);
  expect((await run(vipnatCommand(['check', ...once.slice(2)]))).stderr).toBe('');
  expect((await run(['iptables-nft', '-t', 'nat', '-S', 'PREROUTING'])).stdout).toMatch(/-j VIPNAT$/m);
});
