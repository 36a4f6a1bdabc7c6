import { describe, expect, test } from '@jest/globals';
import { families } from '../../../lib/address/address.ts';
import { type IptablesDialect, iptablesDialects } from '../../../lib/kernel/port.ts';
import { toolName } from '../../../lib/kernel/tools/tool-name.ts';
import { type Cluster } from '../../support/network/cluster.ts';
import { useCluster } from '../../support/network/use-cluster.ts';
import { vips } from '../../support/network/layout.ts';
import { isLong } from '../../support/jest/extent.ts';
import { dumpRules, strangersScript, withoutOwnRules } from '../../support/host/foreign-rules.ts';
import { expectBalanced, startProxies } from './traffic.ts';
import { limitMs, sleep, startAgent, vipnat, vipnatCommand, waitForSync } from '../../support/host/vipnat.ts';

const vipArguments = families.flatMap((family) => ['--vip', vips[family]]);

/** How many runs are killed; the nft backend is the one with a bigger choice of moments. */
const backendToRuns: Readonly<Record<IptablesDialect, number>> = isLong
  ? { nft: 100, legacy: 40 }
  : { nft: 40, legacy: 20 };

/** So many different rulesets, and fewer, say that the kills came too early. */
const fewStates = 5;

/** For 100 runs, each of a dozen processes: a minute on a quiet machine, and on a busy one as long as that takes. */
const allRunsLimitMs = 15 * limitMs;

const seed = Number(process.env['VIPNAT_TEST_SEED'] ?? Math.floor(Math.random() * 2 ** 32));
process.stderr.write(`crash.test.ts: VIPNAT_TEST_SEED=${seed}\n`);

describe.each(iptablesDialects)(`killed at any moment (seed ${seed}), with iptables-%s`, (dialect) => {
  const tool = toolName('ipv4', dialect);
  let cluster: Cluster;

  useCluster('each test', async (made) => {
    cluster = made;
    await startProxies(cluster, ['m1'], dialect, families);
    await cluster.namespaces.shell(cluster.namespaceOf('m1'), strangersScript);
  });

  /** Starts a command and kills it: alone, or with the tools that it runs, as a container is ended. */
  const runAndKill = async (command: readonly string[], lifeMs: number, isAlone: boolean) => {
    const group = ['setsid', ...vipnatCommand(command)];
    const child = cluster.namespaces.start(cluster.namespaceOf('m1'), group);
    const ended = new Promise((resolve) => child.once('exit', resolve));
    await sleep(lifeMs);
    if (isAlone || !killGroup(child.pid)) child.kill('SIGKILL');
    await ended;
  };

  /** How long a start, looks and a write take here and now; leaves nothing behind. */
  const measureOnce = async () => {
    const started = performance.now();
    await vipnat(cluster, 'm1', ['run', '--once', ...vipArguments]);
    const tookMs = performance.now() - started;
    await vipnat(cluster, 'm1', ['cleanup']);
    return tookMs;
  };

  test(
    'vipnat leaves every foreign rule as it was and no request unanswered, and in the end nothing of its own',
    async () => {
      const random = createRandom(seed);
      const before = await dumpRules(cluster, 'm1');
      const foreignBefore = withoutOwnRules(before);
      expect(foreignBefore).toContain('STRANGER-RAW');
      const longestMs = 1.5 * (await measureOnce());
      const states = new Set<string>();
      const runs = backendToRuns[dialect];
      for (let run = 0; run < runs || (states.size <= fewStates && run < 3 * runs); run += 1) {
        const command = pick(random, commands);
        const damage = pick(random, damages);
        await cluster.namespaces.run(cluster.namespaceOf('m1'), [
          'sh',
          '-c',
          damage.replaceAll('iptables', tool),
        ]);
        const [report] = await Promise.all([
          cluster.seat('outside client').request(vips.ipv4, 6443, 10),
          // On a machine that has got busier meanwhile everything takes longer.
          runAndKill(command, random() * longestMs * (run < runs ? 1 : 3), random() < 0.3),
        ]);
        const dump = await dumpRules(cluster, 'm1');
        const foreign = withoutOwnRules(dump);
        expect({ seed, run, command, damage, errors: report.errors, foreign }).toEqual({
          ...{ seed, run, command, damage },
          ...{ errors: {}, foreign: foreignBefore },
        });
        states.add(dump);
      }
      // Otherwise the kills came too early to mean anything.
      expect(states.size).toBeGreaterThan(fewStates);

      const agent = await startAgent(cluster, 'm1', vipArguments);
      await waitForSync(cluster, 'm1', vipArguments);
      await agent.stop();
      expect(await vipnat(cluster, 'm1', ['cleanup'])).toMatchObject({ exitCode: 0 });
      expect(await dumpRules(cluster, 'm1')).toBe(before);
    },
    allRunsLimitMs,
  );

  test(
    'an agent’s rules go on balancing (I8)',
    async () => {
      const agent = await startAgent(cluster, 'm1', vipArguments);
      await agent.stop('SIGKILL');
      for (const family of families) {
        await expectBalanced(cluster, { seat: 'outside client', host: vips[family] });
      }
      expect(await vipnat(cluster, 'm1', ['check', ...vipArguments])).toMatchObject({ exitCode: 0 });
    },
    limitMs,
  );
});

/** What is killed; the agent most often, as in life. */
const commands: readonly (readonly string[])[] = [
  ['run', ...vipArguments],
  ['run', ...vipArguments],
  ['run', ...vipArguments, '--mode', 'direct', '--endpoints', '10.77.0.11:6443,10.77.0.12:6443'],
  ['run', '--once', ...vipArguments],
  ['run', '--once', '--vip', vips.ipv4, '--masquerade', 'kube-mark'],
  ['cleanup'],
];

/**
 * What happens to our rules before that, and gives the next run something to do. Any of it may fail, and none of it
 * makes the VIP unreachable: that is left to vipnat.
 */
const damages: readonly string[] = [
  'true',
  'iptables -t nat -F VIPNAT',
  'iptables -t filter -F VIPNAT-FORWARD',
  'iptables -t nat -A VIPNAT-POSTROUTING -s 192.0.2.1 -j RETURN',
  'iptables -t nat -A VIPNAT -s 192.0.2.1 -j RETURN',
  'iptables -t nat -S PREROUTING | grep -- "-j VIPNAT" | sed s/-A/-D/ | xargs -r iptables -t nat',
];

/** Answers whether there was such a group: a process is in one of its own only once it has come that far. */
function killGroup(pid = 0): boolean {
  try {
    return pid > 1 && process.kill(-pid, 'SIGKILL');
  } catch {
    return false;
  }
}

function pick<T>(random: () => number, choices: readonly T[]): T {
  const choice = choices[Math.floor(random() * choices.length)];
  if (choice === undefined) throw new RangeError('nothing to choose from');
  return choice;
}

/** Numbers from 0 to 1 that are the same for the same seed (mulberry32). */
function createRandom(start: number): () => number {
  let state = start;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
