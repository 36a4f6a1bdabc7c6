import { families } from '../../../lib/net.ts';
import { vips } from '../../support/network/layout.ts';
import { jest, describe, test, expect } from '@jest/globals';
import { limitMs, vipnatCommand, Agent, vipnat, startAgent, waitForSync } from '../../support/host/vipnat.ts';
import { iptablesDialects, toolName } from '../../../lib/kernel/port.ts';
import { useShims } from '../../support/host/shims.ts';
import { useCluster } from '../../support/network/use-cluster.ts';
import { startProxies, expectBalanced, bothVips } from './traffic.ts';
import { strangersScript, dumpRules, withoutOwnRules } from '../../support/host/foreign-rules.ts';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { waitUntil } from '../../support/jest/waiting.ts';

/** So many different rulesets, and fewer, say that the kills came too early. */
const fewStates = 5;

// For dozens of runs, each of a dozen processes: a minute on a quiet machine, and on a busy one as long as that takes.
jest.setTimeout(15 * limitMs);

/** Whoever writes says so by one line for each VIP. */
const wayLine = / (?:service-chain|cluster-ip|direct to \S.*|passthrough): /;

describe.each(iptablesDialects)('killed at each of its writes, with iptables-%s', (dialect) => {
  const tool = toolName('ipv4', dialect);
  const shims = useShims();

  const cluster = useCluster('each test', async () => {
    await startProxies(cluster, ['m1'], dialect, families);
    await cluster.shell('m1', strangersScript);
  });

  /**
   * Puts wrappers in the place of the tools that write. They kill vipnat at its n-th write: with the tools that it runs and before it is
   * done, as a container is ended, or alone, so that the tool does it.
   */
  const killAt = (write: number, isAlone: boolean) => {
    for (const name of ['writes', 'done']) shims.write(name, '');
    for (const one of ['nft', ...families.map((family) => toolName(family, dialect, 'restore'))]) {
      shims.wrap(
        one,
        `${one === 'nft' ? '[ "$1" = -f ] || exec "$TOOL" "$@"' : ''}
        input=$(cat)
        # One that was started in advance and is not needed gets nothing.
        [ -n "$input" ] || exit 0
        echo >>"$(dirname "$0")/writes"
        if [ "$(wc -l <"$(dirname "$0")/writes")" -ge ${write} ] && [ "$PPID" -gt 1 ]; then
          kill -KILL ${isAlone ? '"$PPID"' : '"-$PPID"; exit 1'}
        fi
        printf '%s\\n' "$input" | "$TOOL" "$@"
        status=$?; echo >>"$(dirname "$0")/done"; exit $status`,
      );
    }
  };

  /** Waits until tools that go on without vipnat have written. */
  const waitForWrites = async (count: number) => {
    const countDone = () => readFileSync(join(shims.onlyPath, 'done'), 'utf8').length;
    await waitUntil(
      () => countDone() >= count,
      () => `of ${count} writes ${countDone()} were done`,
    );
  };

  /** Runs a command until that kills it, or it has done all that it does. Answers whether it was killed. */
  const runAndKill = async (words: readonly string[]) => {
    const child = cluster.start('m1', ['env', `PATH=${shims.path}`, 'setsid', ...vipnatCommand(words)]);
    const agent = new Agent(child);
    const hasEnded = () => child.exitCode !== null || child.signalCode !== null;
    await waitUntil(
      () => hasEnded() || agent.listLines(wayLine).length >= families.length,
      'it neither ended nor was ready',
    );
    const isKilled = child.signalCode !== null;
    if (!hasEnded()) await agent.stop('SIGKILL');
    return isKilled;
  };

  test('vipnat leaves every foreign rule as it was and no request unanswered, and in the end nothing of its own', async () => {
    const before = await dumpRules(cluster, 'm1');
    const foreignBefore = withoutOwnRules(before);
    expect(foreignBefore).toContain('STRANGER-RAW');
    const states = new Set<string>();
    for (const { command, damage, isAlone = false } of cases) {
      let isKilled = true;
      let write = 0;
      while (isKilled) {
        write += 1;
        const script = damage.replaceAll('iptables', tool);
        if (damage === 'clean') await vipnat(cluster, 'm1', ['cleanup']);
        else await cluster.run('m1', ['sh', '-c', script]);
        killAt(write, isAlone);
        const [report, killed] = await Promise.all([
          cluster.seat('outside client').request(vips.ipv4, 6443, 10),
          runAndKill(command),
        ]);
        isKilled = killed;
        if (killed) await waitForWrites(isAlone ? write : write - 1);
        const dump = await dumpRules(cluster, 'm1');
        const foreign = withoutOwnRules(dump);
        expect({ write, command, damage, errors: report.errors, foreign }).toEqual({
          ...{ write, command, damage },
          ...{ errors: {}, foreign: foreignBefore },
        });
        states.add(dump);
      }
      // It has something to write, and was killed at each of its writes.
      expect({ command, damage, writes: write - 1 }).not.toEqual({ command, damage, writes: 0 });
    }
    expect(states.size).toBeGreaterThan(fewStates);

    const agent = await startAgent(cluster, 'm1', bothVips);
    await waitForSync(cluster, 'm1', bothVips);
    await agent.stop();
    expect(await vipnat(cluster, 'm1', ['cleanup'])).toMatchObject({ exitCode: 0 });
    expect(await dumpRules(cluster, 'm1')).toBe(before);
  });

  test('an agent’s rules go on balancing (I8)', async () => {
    await (await startAgent(cluster, 'm1', bothVips)).stop('SIGKILL');
    for (const family of families)
      await expectBalanced(cluster, { seat: 'outside client', host: vips[family] });
    expect(await vipnat(cluster, 'm1', ['check', ...bothVips])).toMatchObject({ exitCode: 0 });
  });
});

/**
 * What is killed, and what happens to our rules before, which gives it something to do: `clean`, or a script. Any of it may fail, and none of
 * it makes the VIP unreachable: that is left to vipnat. The order counts: each begins with what the one before has left.
 */
const cases: readonly {
  readonly command: readonly string[];
  readonly damage: string;
  readonly isAlone?: boolean;
}[] = [
  { command: ['run', ...bothVips], damage: 'clean' },
  { command: ['run', ...bothVips], damage: 'clean', isAlone: true },
  { command: ['run', ...bothVips], damage: 'iptables -t nat -F VIPNAT' },
  { command: ['run', ...bothVips], damage: 'iptables -t filter -F VIPNAT-FORWARD' },
  {
    command: ['run', '--once', ...bothVips],
    damage: 'iptables -t nat -A VIPNAT-POSTROUTING -s 192.0.2.1 -j RETURN',
  },
  { command: ['run', ...bothVips], damage: 'iptables -t nat -A VIPNAT -s 192.0.2.1 -j RETURN' },
  {
    command: ['run', ...bothVips],
    damage: 'iptables -t nat -S PREROUTING | grep -- "-j VIPNAT" | sed s/-A/-D/ | xargs -r iptables -t nat',
  },
  {
    command: ['run', ...bothVips, '--mode', 'direct', '--endpoints', '10.77.0.11:6443,10.77.0.12:6443'],
    damage: 'true',
  },
  { command: ['run', '--once', '--vip', vips.ipv4, '--masquerade', 'kube-mark'], damage: 'true' },
  { command: ['cleanup'], damage: 'true' },
  { command: ['run', '--once', ...bothVips], damage: 'clean' },
  { command: ['cleanup'], damage: 'true', isAlone: true },
];
