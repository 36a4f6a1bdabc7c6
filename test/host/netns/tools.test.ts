import { afterEach, describe, expect, test } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { onlyFull } from '../../support/jest/extent.ts';
import { dumpRules } from '../../support/host/foreign-rules.ts';
import { useShims } from '../../support/host/shims.ts';
import { expectBalanced, client, vipArguments, useProxiedCluster } from './traffic.ts';
import {
  type Agent,
  startAgent,
  vipnat,
  vipnatCommand,
  waitForSync,
  waitUntil,
} from '../../support/host/vipnat.ts';

const commands: readonly (readonly string[])[] = [
  ['check', ...vipArguments],
  ...onlyFull(['status', ...vipArguments], ['plan', ...vipArguments]),
  ['run', '--once', ...vipArguments],
  ['cleanup'],
];

const shims = useShims();
let agent: Agent | null = null;
const cluster = useProxiedCluster('all tests');

afterEach(async () => {
  await agent?.stop('SIGKILL');
  agent = null;
  await vipnat(cluster, 'm1', ['cleanup']);
});

const shell = (script: string) => cluster.shell('m1', script);

/** The command fails with one line for people, prints nothing else, and changes no rule. */
async function expectOneLine(
  wrapper: readonly string[],
  args: readonly string[],
  line: RegExp,
): Promise<void> {
  const before = await dumpRules(cluster, 'm1');
  const { exitCode, stdout, stderr } = await cluster.run('m1', [...wrapper, ...vipnatCommand(args)]);
  expect({ args, exitCode, stdout }).toEqual({ args, exitCode: 1, stdout: '' });
  expect(stderr.split('\n')).toHaveLength(1);
  expect(stderr).toMatch(line);
  expect(await dumpRules(cluster, 'm1')).toBe(before);
}

describe('a command on a bad night says so in one line, exits with 1 and writes nothing', () => {
  test.each(commands)('when the tool that reads fails: %s', async (...args) => {
    shims.replace('iptables-nft-save', 'echo "iptables-nft-save: boom" >&2; exit 3');
    const line = /^vipnat: \[TOOL_FAILED\] .*iptables-nft-save failed with exit status 3: boom/;
    await expectOneLine(['env', `PATH=${shims.path}`], args, line);
  });

  test.each(commands)('when the tool that reads prints what is no ruleset: %s', async (...args) => {
    shims.replace('iptables-nft-save', `printf '*nat\\n:PREROUTING ACCEPT [0:0]\\n%%&$ what?\\n'`);
    await expectOneLine(['env', `PATH=${shims.path}`], args, /^vipnat: \[[A-Z_]+\] .*iptables-nft-save.*$/);
  });

  test('when the tool that reads is cut off in the middle', async () => {
    shims.replaceLater('iptables-nft-save', '"$TOOL" | head -c 700; exit 0');
    shims.breakNow();
    const line = /^vipnat: \[[A-Z_]+\] iptables-nft-save printed no whole set of rules: /;
    await expectOneLine(['env', `PATH=${shims.path}`], ['run', '--once', ...vipArguments], line);
  });

  test('when the tool that writes refuses', async () => {
    // Before that tool writes, nft makes base chains that are missing: empty ones, which accept.
    await shell('iptables-nft -P INPUT ACCEPT');
    shims.replace('iptables-nft-restore', 'echo "iptables-nft-restore: line 2 failed" >&2; exit 1');
    const line = /^vipnat: \[[A-Z_]+\] iptables-nft-restore failed with exit status 1: line 2 failed$/;
    await expectOneLine(['env', `PATH=${shims.path}`], ['run', '--once', ...vipArguments], line);
  });

  test.each(commands)('when there is no iptables: %s', async (...args) => {
    const line =
      /^vipnat: \[TOOL_MISSING\] .*iptables-nft-save is not in PATH: install the package iptables /;
    await expectOneLine(['env', `PATH=${shims.onlyPath}`], args, line);
  });

  test.each([...commands, ['run', ...vipArguments]])(
    'when it may not touch the firewall: %s',
    async (...args) => {
      const wrapper = ['setpriv', '--no-new-privs', '--bounding-set=-net_admin', '--inh-caps=-net_admin'];
      const line = /^vipnat: \[TOOL_NOT_PERMITTED\] .* is not permitted .*CAP_NET_ADMIN/;
      await expectOneLine(wrapper, args, line);
    },
  );
});

test('an agent whose tool starts to fail keeps the last good rules, says so once, and repairs when it works again', async () => {
  const tries = join(shims.onlyPath, 'tries');
  shims.replaceLater('iptables-nft-save', `echo >>'${tries}'; echo "boom" >&2; exit 1`);
  agent = await startAgent(cluster, 'm1', vipArguments, { ...process.env, PATH: shims.path });
  shims.breakNow();
  await shell('iptables-nft -t nat -F VIPNAT');
  await agent.waitForLine(
    /error \[TOOL_FAILED\] iptables-nft-save failed with exit status 1: boom\. The last good rules stay/,
  );
  await waitUntil(() => readFileSync(tries, 'utf8').length >= 4, 'it does not try again');
  expect(agent.listLines(/ error /)).toHaveLength(1);
  expect(agent.listLines(/repaired/)).toHaveLength(0);

  shims.repair();
  await agent.waitForLine(/works again after /);
  await agent.waitForLine(/vipnat repaired its rules: VIPNAT lacks /);
  await waitForSync(cluster, 'm1', vipArguments);
  await expectBalanced(cluster, client);
});

test('an agent that cannot read the table it is told to use keeps balancing, and goes on once it can', async () => {
  const args = [...vipArguments, '--iptables', 'nft'];
  agent = await startAgent(cluster, 'm1', args);
  await shell('nft add rule ip nat PREROUTING numgen random mod 2 0 counter');
  await agent.waitForLine(/error .*table nat/);
  await expectBalanced(cluster, client);
  expect(agent.listLines(/ error /)).toHaveLength(1);
  const list = await shell('nft --handle list chain ip nat PREROUTING');
  await shell(`nft delete rule ip nat PREROUTING handle ${/numgen .*# handle (\d+)/.exec(list)?.[1] ?? ''}`);
  await agent.waitForLine(/works again after /);
  expect(await vipnat(cluster, 'm1', ['check', ...args])).toMatchObject({ exitCode: 0 });
});
