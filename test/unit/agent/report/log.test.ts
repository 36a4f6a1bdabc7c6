import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { type RunningAgent, startAgent, ordinaryConfig } from '../../../support/agent/running-agent.ts';
import { beforeEach, expect, describe, test } from '@jest/globals';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { FakeKernel } from '../../../support/fakes/kernel.ts';
import { syncKubeProxy, removeKubeProxy } from '../../../support/kube-proxy/in-memory.ts';

const nft = { family: 'ipv4', dialect: 'nft' } as const;
const three = ['10.77.0.11:6443', '10.77.0.12:6443', '10.77.0.13:6443'].map(toEndpoint);
const direct = 'direct to 10.77.0.11:6443, 10.77.0.12:6443, 10.77.0.13:6443';
const liveChain = 'kube-proxy sends 10.96.0.1 to the same 3 apiservers (nat KUBE-SERVICES (iptables-nft))';

let agent: RunningAgent;
let linesSeen: number;

/** An agent on a host with kube-proxy, after its first line. */
beforeEach(async () => {
  const clock = new FakeClock();
  const kernel = new FakeKernel(clock);
  syncKubeProxy(kernel, nft, three);
  agent = startAgent({ clock, kernel });
  linesSeen = 0;
  expect(await linesAfter(2000)).toEqual([
    `info 10.0.0.50:6443 starts in mode service-chain: ${liveChain} (took 0 ms)`,
  ]);
});

/** What is logged in so many milliseconds and since the last time. */
async function linesAfter(ms: number): Promise<string[]> {
  await agent.clock.advance(ms);
  const lines = agent.logger.lines.slice(linesSeen);
  linesSeen = agent.logger.lines.length;
  return lines.map(({ level, message }) => `${level} ${message}`);
}

function run(script: string): void {
  agent.kernel.run('ipv4', 'nft', script);
}

const kubeProxyHook = '-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES';

describe('a bad night, in lines', () => {
  test('the VIP comes and goes', async () => {
    agent.kernel.addAddress({ family: 'ipv4', address: '10.0.0.50', device: 'eth0' });
    expect(await linesAfter(2000)).toEqual(['info this node holds 10.0.0.50']);
    agent.kernel.removeAddress('10.0.0.50');
    expect(await linesAfter(2000)).toEqual(['info this node no longer holds 10.0.0.50']);
  });

  test('somebody takes our hook out of PREROUTING: one repair, one warning', async () => {
    run(`*nat\n-F PREROUTING\n${kubeProxyHook}\nCOMMIT\n`);
    expect(await linesAfter(2000)).toEqual([
      'warn vipnat repaired its rules: PREROUTING has no jump to VIPNAT (nat, iptables-nft) (took 0 ms)',
    ]);
    expect(agent.logger.lines.at(-1)?.fields).toEqual({
      drift: ['PREROUTING has no jump to VIPNAT (nat, iptables-nft)'],
      causes: ['own-rules'],
    });
  });

  test('several rules at once are one line, and its fields have them all', async () => {
    run(`*nat\n-F PREROUTING\n${kubeProxyHook}\n-F OUTPUT\n-F VIPNAT\nCOMMIT\n`);
    expect(await linesAfter(2000)).toEqual([
      expect.stringMatching(
        /^warn vipnat repaired its rules: VIPNAT lacks -d 10\.0\.0\.50\/32 .* and 2 more \(took 0 ms\)$/,
      ),
    ]);
    expect(agent.logger.lines.at(-1)?.fields['drift']).toHaveLength(3);
  });

  test.each([
    // Nothing leads to kube-proxy any more, and nothing waits for it.
    [
      'somebody flushes PREROUTING',
      '-F PREROUTING',
      `info 10.0.0.50:6443 changes mode, service-chain -> ${direct}: packets do not reach kube-proxy's rules: nat PREROUTING has no jump to KUBE-SERVICES (took 0 ms)`,
    ],
    [
      'leftovers of another version go, and nobody is warned',
      ':VIPNAT-OLD - [0:0]',
      'info vipnat updated its rules: VIPNAT-OLD is left over (nat, iptables-nft) (took 0 ms)',
    ],
  ])('%s', async (_, script, line) => {
    run(`*nat\n${script}\nCOMMIT\n`);
    expect(await linesAfter(2000)).toEqual([line]);
  });

  test('kube-proxy is back before the rules without it are verified: both changes are told', async () => {
    agent.kernel.faults.beforeApply(() => {
      run(`*nat\n${kubeProxyHook}\nCOMMIT\n`);
    });
    run('*nat\n-F PREROUTING\nCOMMIT\n');
    expect(await linesAfter(2000)).toEqual([
      `info 10.0.0.50:6443 changes mode, service-chain -> ${direct}: packets do not reach kube-proxy's rules: nat PREROUTING has no jump to KUBE-SERVICES (took 0 ms)`,
      `info 10.0.0.50:6443 changes mode, direct -> service-chain: ${liveChain} (took 0 ms)`,
    ]);
  });

  test('somebody flushes the whole nat table, kube-proxy is back an hour later', async () => {
    run('*nat\n-F\nCOMMIT\n');
    expect(await linesAfter(3_600_000)).toEqual([
      `info 10.0.0.50:6443 changes mode, service-chain -> ${direct}: kube-proxy has no active rules for default/kubernetes; apiservers from memory: last seen in nat KUBE-SVC-NPX46M4PTMTKRN6Y (iptables-nft) (took 0 ms)`,
    ]);
    syncKubeProxy(agent.kernel, nft, three);
    expect(await linesAfter(2000)).toEqual([
      `info 10.0.0.50:6443 changes mode, direct -> service-chain: ${liveChain} (took 0 ms)`,
    ]);
  });

  test('kube-proxy wants its chain gone, and is removed', async () => {
    expect(() => {
      syncKubeProxy(agent.kernel, nft, []);
    }).toThrow('failed');
    expect(await linesAfter(2000)).toEqual([
      `info 10.0.0.50:6443 changes mode, service-chain -> ${direct}: kube-proxy wants to delete its chain (filter KUBE-SERVICES (iptables-nft)) (took 0 ms)`,
    ]);
    removeKubeProxy(agent.kernel, nft);
    // The VIP goes the same way as before: nothing changed for anybody.
    expect(await linesAfter(60_000)).toEqual([]);
  });

  test('a tool fails in two ways, and then works again', async () => {
    agent.kernel.faults.failNext({ tool: 'iptables-nft-save', code: 'TOOL_NOT_PERMITTED' });
    agent.kernel.faults.hangNext('iptables-nft-save');
    agent.kernel.trigger('ipvs');
    expect(await linesAfter(30_000)).toEqual([
      'error iptables-nft-save failed as the test asked. The last good rules stay. vipnat tries again in 50 ms',
      'error iptables-nft-save had not ended after 10 s and was killed. The last good rules stay. vipnat tries again in 18000 ms',
      'info vipnat works again after 28 s',
    ]);
    expect(agent.logger.lines.find(({ level }) => level === 'error')?.fields['code']).toBe(
      'TOOL_NOT_PERMITTED',
    );
  });

  test('somebody keeps deleting our hook: ten repairs, one loud line, then one repair in five seconds', async () => {
    const drift = 'OUTPUT has no jump to VIPNAT (nat, iptables-nft)';
    for (let count = 0; count < 200; count += 1) {
      run('*nat\n-F OUTPUT\nCOMMIT\n');
      await agent.clock.advance(100);
    }
    const lines = await linesAfter(0);
    expect(lines.slice(0, 11)).toEqual([
      ...Array<string>(10).fill(`warn vipnat repaired its rules: ${drift} (took 0 ms)`),
      `error another program keeps undoing vipnat's rules: ${drift}. vipnat now repairs them only every 5 s. Find the other program that writes them`,
    ]);
    expect(lines.slice(11).filter((line) => line.startsWith('error'))).toEqual([]);
    expect(lines.length).toBeLessThanOrEqual(11 + 4);
    expect((await linesAfter(180_000)).at(-1)).toBe("info no program has undone vipnat's rules for 60 s");
  });
});

test('a VIP that nobody knows an apiserver for is a warning, with what was looked for', async () => {
  const clock = new FakeClock();
  const { logger } = startAgent({ clock, config: { ...ordinaryConfig, proxyMode: 'none' } });
  await clock.advance(2000);
  expect(logger.lines.map(({ level, message }) => `${level} ${message}`)).toEqual([
    "warn 10.0.0.50:6443 starts in mode passthrough: no apiserver is known (kube-proxy's rules and --endpoints name none) (took 0 ms)",
  ]);
});
