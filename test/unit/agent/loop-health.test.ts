import { describe, test, expect } from '@jest/globals';
import { play, testAgent } from './timeline.ts';
import { toEndpoint } from '../../support/fakes/endpoints.ts';
import { nft } from './host.ts';
import type { KernelQuery, KernelReading, Transaction } from '../../../lib/kernel/port.ts';
import { FakeClock } from '../../support/fakes/clock.ts';
import { type RunningAgent, startAgent, linesOf, ordinaryConfig } from '../../support/agent/running-agent.ts';
import { syncKubeProxy } from '../../support/kube-proxy/in-memory.ts';
import { FakeKernel } from '../../support/fakes/kernel.ts';
import { advanceUntil } from '../advance-until.ts';

describe('an apiserver that dies', () => {
  test('is out of the rules as soon as it is known to be dead, without a look first', async () => {
    const host = await play('targets proxy');
    const { kernel } = host;
    const { reads } = kernel;
    let readsAtWrite = -1;
    kernel.faults.beforeApply(() => (readsAtWrite = kernel.reads));
    host.set('10.77.0.13:6443', 'refusing');
    await host.clock.advance(15);
    expect([readsAtWrite, host.targets]).toEqual([reads, 'm1 m2']);
  });

  testAgent({
    'whose host still accepts connections is out as soon as its process closes those of the probes':
      'm3 ending; wait 0; targets m1 m2',
    'is forgotten when kube-proxy has dropped it too, after two equal looks':
      'm3 refusing; wait 10000; targets m1 m2; proxy m1 m2; wait 400; targets m1 m2; wait 1000; targets proxy',
    'is forgotten as soon where a look takes long':
      'delay iptables-nft-save 100; m3 refusing; wait 10000; targets m1 m2; proxy m1 m2; wait 3000; targets proxy',
    'while a look is under way is out all the same, and that look writes nothing that it read before':
      'delay next iptables-nft-save 400; look; wait 100; m3 refusing; wait 20; targets m1 m2; only m1 m2 for 5000',
    'together with another: both are out': 'm2 m3 refusing; wait 200; targets m1',
    'with a write that fails is out by the next try':
      'fail iptables-nft-restore; m3 refusing; wait 300; targets m1 m2',
  });

  test('is told in two lines: where connections go instead, and what died and why', async () => {
    const host = await play('wait 0');
    const { length } = host.lines('info');
    host.set('10.77.0.13:6443', 'refusing');
    await host.clock.advance(1000);
    expect(host.lines('info').slice(length)).toEqual([
      expect.stringMatching(
        /^10\.0\.0\.50:6443 changes mode, service-chain -> direct to 10\.77\.0\.11:6443, 10\.77\.0\.12:6443: kube-proxy's list is out of date: it names 3 apiservers \(.*\), and 2 apiservers are usable \(10\.77\.0\.13:6443 is draining\) \(took \d+ ms\)$/,
      ),
      expect.stringMatching(
        /^10\.77\.0\.13:6443 is dead: connection refused \d+ ms after the probe's connection closed$/,
      ),
    ]);
  });
});

testAgent({
  'when all are dead, all are kept and kube-proxy’s chain is released, so that it can go (I11)':
    'm1 m2 m3 refusing; wait 500; targets m1 m2 m3;' +
    "1 line of info no apiserver answers this node's probes, so all 3 stay in use",
  'decisions that change with every look are no sign of somebody who undoes our rules':
    'delay iptables-nft-save 400;' +
    'm2 refusing; m3 healthy; wait 450; m2 healthy; m3 refusing; wait 450;'.repeat(4) +
    '0 lines of error .',
});

testAgent(
  {
    'an agent that is cut off keeps its rules':
      'mark; m2 m3 silent; wait 60000; writes 0; 1 line of warn this node may be cut off',
  },
  {
    prepare: ({ kernel }) => {
      kernel.addAddress({ family: 'ipv4', address: '10.77.0.11', device: 'eth0' });
    },
  },
);

describe('connections to an apiserver', () => {
  testAgent({
    'that is silent are reset: unanswered ones when it is dead, all after five seconds, each once':
      'm3 silent; wait 800; resets m3 half-open; wait 60000; resets m3 half-open, m3 all',
    'that refuses or drains are left to it': 'm2 failing; m3 refusing; wait 60000; targets m1; resets none',
  });
});

/** Each look takes 4 s, so the next one comes 8 s later. */
const slow = 'delay netlink 4000; look; wait 4500;';

describe('while looks cost much and have to rest', () => {
  testAgent({
    'a death is out at once': `${slow} m3 refusing; wait 15; targets m1 m2`,
    'a second one is looked for at once, while the first write is not yet checked': `${slow} delay next iptables-nft-restore 500; m3 refusing; wait 100; m2 refusing; wait 4500; targets m1`,
    'so is one whose write failed': `${slow} fail iptables-nft-restore; m3 refusing; wait 4100; targets m1 m2`,
  });
});

/** The first two apiservers die, kube-proxy forgets them, and the last one that it knows dies too. */
const loseAll = 'm1 m2 refusing; wait 20000; proxy m3; wait 5000; m3 refusing; wait 10000; targets m3;';

const startAnew = 'kill; start; wait 10000';

describe('when every apiserver that is listed is dead', () => {
  testAgent({
    'one that was listed before gets the connections as soon as it lives again, for kube-proxy hears of it through us':
      `${loseAll} m2 healthy; wait 5000; targets m2;` +
      'proxy m2 m3; wait 5000; targets m2; m3 healthy; wait 10000; targets proxy',
    'one that was listed before is asked for nothing while another one lives':
      'proxy m2 m3; wait 5000; m2 refusing; wait 5000; targets m3; health m2 dead, m3 ready',
    'one that was listed before does, also for an agent that was started since': `proxy m2 m3; wait 5000; stop; m2 m3 refusing; ${startAnew}; targets m1`,
    'what an earlier agent has saved counts as listed before': `stop; proxy m3; m2 m3 refusing; ${startAnew}; targets m1`,
  });

  testAgent(
    {
      'one that --endpoints names does, also for an agent that never saw it listed':
        'before; proxy m3; start; wait 2000; m3 refusing; wait 5000; targets m1',
    },
    { config: { endpoints: [toEndpoint('10.77.0.11:6443')] } },
  );
});

describe.each(['ailing', 'frozen'])('when every apiserver that is listed is %s', (behaviour) => {
  /** kube-proxy lists the last one alone. */
  const withOne = 'proxy m3; wait 5000;';
  testAgent({
    'those that were listed before get the connections, and it has them back as soon as it does well':
      `${withOne} m3 ${behaviour}; wait 25000; targets m1 m2; wait 120000; targets m1 m2;` +
      'm3 healthy; wait 20000; targets proxy',
    'those that were listed before and do no better get none, until the first of them does well':
      `${withOne} m1 m2 m3 ${behaviour}; wait 60000; targets proxy; watched m1 m2 m3;` +
      'm2 healthy; wait 60000; targets m2',
    'those that were listed before and are dead get none': `${withOne} m1 m2 refusing; m3 ${behaviour}; wait 60000; targets proxy`,
  });
});

const three = ['10.77.0.11:6443', '10.77.0.12:6443', '10.77.0.13:6443'].map(toEndpoint);
const two = three.slice(0, 2);

/** A kernel whose tools print, or whose strangers act, in a way of their own. */
class OddKernel extends FakeKernel {
  print = (text: string): string => text;
  afterApply = (): void => undefined;

  override async read(query: KernelQuery): Promise<KernelReading> {
    const reading = await super.read(query);
    const iptables = reading.iptables.map((output) => ({ ...output, text: this.print(output.text) }));
    return { ...reading, iptables };
  }

  override async apply(transaction: Transaction): Promise<void> {
    await super.apply(transaction);
    this.afterApply();
  }
}

/** An agent on a host with it, on which kube-proxy has three apiservers; nothing has happened yet. */
function startOdd(config = ordinaryConfig): RunningAgent & { readonly kernel: OddKernel } {
  const clock = new FakeClock();
  const kernel = new OddKernel(clock);
  syncKubeProxy(kernel, nft, three);
  return { ...startAgent({ clock, kernel, config }), kernel };
}

function run(kernel: FakeKernel, script: string): void {
  kernel.run('ipv4', 'nft', script);
}

describe('a tool that prints our rules in a way of its own', () => {
  const addOption = (text: string) =>
    text.replaceAll(/(-A VIPNAT-POSTROUTING .*-j MASQUERADE --random-fully)$/gm, '$1 --odd');

  test('is believed after two writes, and then all is in sync', async () => {
    const agent = startOdd();
    const { clock, kernel } = agent;
    kernel.print = addOption;
    await clock.advance(10_000);
    expect(kernel.applied).toHaveLength(2);
    const reads = kernel.reads;
    await clock.advance(60_000);
    expect([kernel.reads - reads, kernel.applied.length, linesOf(agent, 'error')]).toEqual([1, 2, []]);
  });

  test('and in another one every time, is given up with RULES_NOT_CONVERGING, and tried again later', async () => {
    const { clock, kernel, logger } = startOdd();
    let count = 0;
    kernel.print = (text) => addOption(text).replaceAll('--odd', () => `--odd ${(count += 1)}`);
    await clock.advance(20);
    expect(kernel.applied).toHaveLength(3);
    const [line] = logger.lines.filter(({ level }) => level === 'error');
    expect(line?.fields['code']).toBe('RULES_NOT_CONVERGING');
    expect(line?.message).toContain('vipnat wrote its rules, but they do not stay');
    await clock.advance(60_000);
    expect(kernel.applied.length).toBeGreaterThan(3);
    expect(kernel.applied.length).toBeLessThan(30);
  });
});

describe('a stranger that undoes every write at once', () => {
  test('leaves nothing behind when it stops: what two looks saw while nothing was written is no print', async () => {
    const agent = startOdd();
    const { clock, kernel } = agent;
    await clock.advance(2000);
    const [rule = ''] = /-A VIPNAT-POSTROUTING .*\n/.exec(kernel.show('ipv4', 'nft')) ?? [];
    const rounds = [...Array(40).keys()].map((port) => rule.replace(/6443 -j .*/, `${port + 1} -j RETURN`));
    kernel.afterApply = () => {
      run(kernel, `*nat\n:VIPNAT-POSTROUTING - [0:0]\n${rounds.shift() ?? rule}COMMIT\n`);
    };
    kernel.afterApply();
    const isReported = () =>
      linesOf(agent, 'error').some((line) => line.includes('another program keeps undoing'));
    await advanceUntil(clock, 'a fight is told', isReported, 100);
    kernel.afterApply = () => undefined;
    // Others write beside us, and have it looked at again and again.
    for (let index = 0; index < 10; index += 1) {
      run(kernel, '*filter\n-A INPUT -s 192.0.2.1/32 -j DROP\nCOMMIT\n');
      await clock.advance(100);
    }
    await clock.advance(10_000);
    expect(kernel.show('ipv4', 'nft')).toContain(rule);
  });

  test("does not hold up a change of kube-proxy's endpoints", async () => {
    const agent = startOdd({ ...ordinaryConfig, mode: 'direct' });
    const { clock, kernel } = agent;
    await clock.advance(2000);
    kernel.afterApply = () => {
      run(kernel, '*filter\n-F VIPNAT-FORWARD\nCOMMIT\n');
    };
    run(kernel, '*filter\n-F VIPNAT-FORWARD\nCOMMIT\n');
    await clock.advance(60_000);
    expect(linesOf(agent, 'error').length).toBeGreaterThan(0);
    syncKubeProxy(kernel, nft, two);
    await clock.advance(200);
    const rules = kernel
      .show('ipv4', 'nft')
      .split('\n')
      .filter((rule) => /^-A VIPNAT-[0-9a-f]{10} /.test(rule));
    expect(rules).toHaveLength(two.length);
  });
});
