import { describe, expect, test } from '@jest/globals';
import { fc } from '../../support/random/fc.ts';
import { FakeClock } from '../../support/fakes/clock.ts';
import { FakeKernel } from '../../support/fakes/kernel.ts';
import { syncKubeProxy } from '../../support/kube-proxy/in-memory.ts';
import { linesOf, ordinaryConfig, type RunningAgent, startAgent } from '../../support/agent/running-agent.ts';
import { apiservers } from './configs.ts';
import { damages } from '../../support/foreign/damage.ts';
import { chooseOneIn } from '../../support/random/runs.ts';
import { runEdit } from './strangers.ts';
import { printOurs, type Source } from './tables.ts';
import { forAll } from './for-all.ts';

const fiveMinutesMs = 300_000;

/** The first write and ten repairs at once, then one in five seconds; and one for what was under way at the start. */
const writeLimit = 1 + 10 + fiveMinutesMs / 5000 + 1;

const nft: Source = { family: 'ipv4', dialect: 'nft' };
const legacy: Source = { family: 'ipv4', dialect: 'legacy' };

/** What somebody insists on: each is nothing to do once it is so. */
const grudges: Readonly<Record<string, (kernel: FakeKernel, source: Source) => void>> = {
  'flushes the chain of the VIPs': (kernel, { family, dialect }) => {
    kernel.run(family, dialect, '*nat\n-F VIPNAT\nCOMMIT\n');
  },
  'deletes our hook': (kernel, { family, dialect }) => {
    const hook = printOurs(kernel).find((line) => line.includes('nat PREROUTING'));
    const rule = hook?.slice(hook.indexOf('PREROUTING') + 'PREROUTING'.length);
    if (rule !== undefined) kernel.run(family, dialect, `*nat\n-D PREROUTING${rule}\nCOMMIT\n`);
  },
  'puts a rule before ours': (kernel, { family, dialect }) => {
    if (isFirst(kernel, { family, dialect }, '-j RIVAL')) return;
    const removal = kernel.show(family, dialect).includes('-A OUTPUT -j RIVAL') ? '-D OUTPUT -j RIVAL\n' : '';
    kernel.run(family, dialect, `*nat\n:RIVAL - [0:0]\n${removal}-I OUTPUT -j RIVAL\nCOMMIT\n`);
  },
  'writes a rule into a chain of ours': (kernel, { family, dialect }) => {
    if (kernel.show(family, dialect).includes('--comment strange')) return;
    kernel.run(family, dialect, '*filter\n-I VIPNAT-FORWARD -m comment --comment strange -j DROP\nCOMMIT\n');
  },
};

function isFirst(kernel: FakeKernel, { family, dialect }: Source, rule: string): boolean {
  const outputs: readonly string[] = kernel.show(family, dialect).match(/^-A OUTPUT .*/gm) ?? [];
  const at = outputs.indexOf(`-A OUTPUT ${rule}`);
  return at !== -1 && !outputs.slice(0, at).some((other) => other.includes('VIPNAT'));
}

async function startInSync({ family, dialect }: Source): Promise<RunningAgent> {
  const clock = new FakeClock();
  const kernel = new FakeKernel(clock);
  syncKubeProxy(kernel, { family, dialect }, apiservers);
  const agent = startAgent({ clock, kernel, config: { ...ordinaryConfig, iptables: dialect } });
  await clock.advance(1000);
  return agent;
}

/** In the gate two: a flush in nft, and a rule before ours in legacy. */
const fights = chooseOneIn(
  5,
  Object.entries(grudges).flatMap(([grudge, act]) =>
    [nft, legacy].map((source) => ({ ...source, grudge, act })),
  ),
);

describe('a stranger that undoes our rules every 10 ms for five minutes meets few writes and is named in one line (I9)', () => {
  test.each(fights)('when it $grudge: $dialect', async ({ act, ...source }) => {
    const { clock, kernel, logger, agent } = await startInSync(source);
    const started = kernel.applied.length;
    for (let passedMs = 0; passedMs < fiveMinutesMs; passedMs += 10) {
      act(kernel, source);
      await clock.advance(10);
    }
    expect(kernel.applied.length - started).toBeLessThanOrEqual(writeLimit);
    // Not given up either.
    expect(kernel.applied.length - started).toBeGreaterThan(fiveMinutesMs / 5000 / 2);
    expect(linesOf({ logger }, 'error')).toHaveLength(1);
    expect(linesOf({ logger }, 'error')[0]).toMatch(/^another program keeps undoing vipnat's rules: /);
    expect(linesOf({ logger }, 'warn').length).toBeLessThanOrEqual(writeLimit);

    // It gives up, and the fight is over.
    await clock.advance(120_000);
    expect(linesOf({ logger }, 'info')).toContain("no program has undone vipnat's rules for 60 s");
    expect(kernel.breaches).toEqual([]);
    await agent.stop();
  });
});

test('however a stranger edits our rules at once after each of our writes, writes stay few and loud lines too (I9)', async () => {
  await forAll({ runs: 20 }, [fc.constantFrom(...damages), fc.nat({ max: 30 })], async (kind, at) => {
    const { clock, kernel, logger, agent } = await startInSync(nft);
    let seen = kernel.applied.length;
    runEdit(kernel, { ...nft, at, kind });
    for (let passedMs = 0; passedMs < 60_000; passedMs += 10) {
      if (kernel.applied.length > seen) runEdit(kernel, { ...nft, at, kind });
      seen = kernel.applied.length;
      await clock.advance(10);
    }
    expect(kernel.applied.length).toBeLessThanOrEqual(1 + 10 + 60 / 5 + 2);
    expect(linesOf({ logger }, 'error').length).toBeLessThanOrEqual(2);
    expect(kernel.breaches).toEqual([]);
    await agent.stop();
  });
});
