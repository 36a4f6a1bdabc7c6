import { listTexts, toText, flowTo, nft, Host, vip } from './host.ts';
import { toEndpoint } from '../../support/fakes/endpoints.ts';
import type { Config } from '../../../config/options.ts';
import type { Behaviour } from '../../support/fakes/apiserver.ts';
import { type Beginning, testAgent, forEach, play } from './timeline.ts';
import { test, expect, describe } from '@jest/globals';
import { formatEndpoint } from '../../../lib/net.ts';
import { ordinaryConfig, startAgent, linesOf } from '../../support/agent/running-agent.ts';
import { FakeKernel } from '../../support/fakes/kernel.ts';
import { FakeClock } from '../../support/fakes/clock.ts';
import { syncKubeProxy } from '../../support/kube-proxy/in-memory.ts';
import { lookOnce } from '../../support/agent/captured-host.ts';
import { formatCommands } from '../../../cli/screens/plan.ts';
import { formatJson } from '../../../cli/commands/plan.ts';

/** The old apiservers are m1, m2 and m3; m9 is at this host's own address, and nobody lists it. */
const old = listTexts('m1 m2 m3');
const own = toText('m9');
const addresses = [
  ['docker0', '172.17.0.1'],
  ['cni0', '10.244.1.1'],
  ['kube-ipvs0', '10.77.0.51'],
  ['eth0', '10.77.0.19'],
  ['eth0', '10.77.0.50'],
  ['eth0', 'fd77::99'],
  ['cni0', 'fd00:244:1::1'],
  ['eth0', 'fe80::1'],
] as const;
const vips = [toEndpoint('10.77.0.50:6443')];

interface Setting {
  readonly config?: Partial<Config>;
  readonly saved?: readonly string[];
  /** How the old addresses are, and whoever listens at this host's own. */
  readonly lost?: Behaviour;
  readonly local?: Behaviour;
}

/** A master whose address is a new one, with the VIP, a pod bridge and a runtime's bridge. */
function onMaster({ config, saved = old, lost = 'silent', local = 'healthy' }: Setting = {}): Beginning {
  return {
    config: { vips, ...config },
    prepare: (host) => {
      for (const [device, address] of addresses)
        host.kernel.addAddress({ family: address.includes(':') ? 'ipv6' : 'ipv4', address, device });
      const endpoints = saved.map(toEndpoint);
      if (saved.length > 0) void host.store.save({ savedAt: '2026-11-21T15:04:05.678Z', endpoints });
      for (const text of [...old, ...saved]) host.set(text, lost);
      for (const text of [own, '[fd77::99]:6443']) host.set(text, local);
    },
  };
}

const start = 'before; start; wait 5000;';

testAgent(
  {
    ...forEach(['silent', 'refusing', 'unreachable'], (lost) => [
      `while the old addresses are ${lost}, the VIP goes to the local apiserver, and keepalived keeps it`,
      `before; m1 m2 m3 ${lost}; start; wait 3000; targets m9; wait 60000; targets m9; told 0`,
    ]),
    'an agent that starts again writes nothing': `${start} targets m9; mark; stop; start; wait 30000; writes 0; targets m9; told 0`,
    'as soon as somebody lists apiservers that live, all is as ever, and the local address is asked no more': `${start} proxy m9 m8; wait 20000; targets proxy; proxy m8; wait 90000; watched m8`,
    'it gets nothing while one that is listed lives':
      'before; m2 healthy; start; wait 60000; targets m2; watched m1 m2 m3',
    'it gives way to one that was named before and lives': `${start} targets m9; m2 healthy; wait 10000; targets m2`,
    'one that comes up later than the agent serves within a second':
      'before; m9 refusing; start; wait 45000; m9 healthy; wait 1000; targets m9',
    'when the local one dies as well, all that are listed are kept': `${start} targets m9; m1 m2 m3 m9 refusing; wait 5000; targets m1 m2 m3`,
  },
  onMaster(),
);

testAgent(
  forEach(['silent', 'refusing', 'unreachable'], (lost) => [
    `--endpoints with old addresses alone, which are ${lost}, does no harm either`,
    `before; m1 m2 m3 ${lost}; start; wait 5000; targets m9; told 0`,
  ]),
  onMaster({ saved: [], config: { endpoints: old.map(toEndpoint) } }),
);

test('the Kubernetes API is asked there too, so that the new list is learnt', async () => {
  const { running } = await play(start, onMaster());
  expect(running.api.known?.own?.map(formatEndpoint)).toContain(own);
});

test.each([
  ['refusing', ' is dead, 10.77.0.12:6443 is dead, 10.77.0.13:6443 is dead)'],
  ['silent', ' does not answer'],
] as const)('the log says that it is this node’s own apiserver, and why: %s', async (lost, why) => {
  const host = await play(start, onMaster({ lost }));
  expect(host.lines('info').join()).toContain(
    `1 apiserver is usable (this node's own, which no source lists, because 10.77.0.11:6443${why}`,
  );
});

test('two VIPs, one of each family, go to the local apiserver at the address of theirs', async () => {
  const saved = [...old, '[fd77::11]:6443', '[fd77::12]:6443'];
  const config = { vips: [...vips, toEndpoint('[fd77::50]:6443')] };
  const { kernel } = await play(`${start} targets m9; told 0`, onMaster({ saved, config }));
  const targets = [...kernel.show('ipv6', 'nft').matchAll(/--to-destination (\S+)/g)];
  expect(targets.map(([, target]) => target)).toEqual(['[fd77::99]:6443']);
});

testAgent(
  { 'two VIPs of one family both go there': `${start} targets m9 m9` },
  onMaster({ config: { vips: [...vips, toEndpoint('10.77.0.52:8443')] } }),
);

test('on a host without an apiserver of its own all that are listed are kept, and none is mentioned beside them', async () => {
  const host = await play(
    'before; start; wait 120000; targets m1 m2 m3; watched m1 m2 m3',
    onMaster({ local: 'refusing', lost: 'refusing' }),
  );
  const said = host.running.logger.lines.map(({ message }) => message);
  // Its own connections come from there: that says nothing of an apiserver.
  const ofApiservers = said.filter((line) => !line.startsWith('local clients now connect to '));
  expect(ofApiservers.join('\n')).not.toContain('10.77.0.19');
});

describe.each(['hanging up', 'frozen', 'failing', 'ailing'] as const)(
  'on a host where something that is %s listens at the port of apiservers',
  (local) => {
    testAgent(
      {
        'it is nobody: all that are listed are kept, and none is mentioned beside them':
          'before; m1 m2 m3 refusing; start; wait 60000; targets m1 m2 m3; watched m1 m2 m3',
        'and nobody else is heard, keepalived gives the VIP away':
          'before; start; wait 60000; targets m1 m2 m3; told last 1',
      },
      onMaster({ local }),
    );
  },
);

testAgent(
  {
    'where no apiserver is known the VIP is its holder’s, as ever':
      'before; start; wait 10000; targets none; watched nobody',
  },
  onMaster({ saved: [] }),
);

const all = old.map(toEndpoint);

/** The apiservers whose invalid replies are dropped, in the order of the rules. */
function listDropped(kernel: FakeKernel, dialect: 'nft' | 'none'): string[] {
  const text = dialect === 'nft' ? kernel.show('ipv4', 'nft') : kernel.showNft('ipv4');
  const found = text.matchAll(/(?:-A VIPNAT-INPUT -s |ip saddr )([\d.]+).* (?:--sport|tcp sport) (\d+) /g);
  return [...found].map(([, address = '', port = '']) => `${address}:${port}`);
}

test.each(['nft', 'none'] as const)(
  'an apiserver that leaves the list stays in the rules about its replies until nobody has a connection to it, also for a new agent: --iptables %s',
  async (dialect) => {
    const clock = new FakeClock();
    const kernel = new FakeKernel(clock);
    syncKubeProxy(kernel, nft, all.slice(0, 2));
    const config = { ...ordinaryConfig, iptables: dialect };
    const { agent, ...running } = startAgent({ clock, kernel, config });
    await clock.advance(10_000);
    expect(listDropped(kernel, dialect)).toEqual(all.slice(0, 2).map(formatEndpoint));
    const open = flowTo(toText('m1'));
    kernel.trackFlow(open);

    // Another one comes, and nobody has interfered.
    syncKubeProxy(kernel, nft, all);
    await clock.advance(2000);
    expect(listDropped(kernel, dialect)).toEqual(all.map(formatEndpoint));
    // This one leaves.
    syncKubeProxy(kernel, nft, all.slice(1));
    await clock.advance(180_000);
    expect(listDropped(kernel, dialect)).toEqual(all.map(formatEndpoint));

    // An agent that remembers nothing finds all in sync.
    await agent.stop();
    const writes = kernel.applied.length;
    const fresh = startAgent({ clock, kernel, config });
    await clock.advance(180_000);
    expect(kernel.applied.length).toBe(writes);
    await kernel.resetFlows(open);
    await clock.advance(180_000);
    expect(listDropped(kernel, dialect)).toEqual(all.slice(1).map(formatEndpoint));

    for (const logger of [running.logger, fresh.logger]) expect(linesOf({ logger }, 'warn')).toEqual([]);
    for (const { recorded } of [running.events, fresh.events])
      expect(JSON.stringify(recorded)).not.toContain('RulesRepaired');
  },
);

/** The last one restarts, and none of the others gets a connection meanwhile. */
const restart = 'm3 refusing; wait 100; only m3 for 19900; m3 healthy; wait 10000; targets proxy;';

/** All did well, and for minutes there is only the last one. */
const removed = 'proxy m3; wait 300000; targets proxy;';

/** The others die: who gets the connections? */
const others = 'm2 m3 refusing; wait 10000;';

describe('an apiserver that was taken from the list while all did well', () => {
  testAgent({
    'gets nothing when the last one restarts, however well it answers': `${removed} ${restart}`,
    'gets nothing from an agent that was started since either': `${removed} stop; start; wait 5000; ${restart}`,
    'gets nothing although it still has connections': `m1 has a connection; ${removed} ${restart}`,
    'gets nothing although the last one restarted within the first seconds, too': `proxy m3; wait 5000; m3 refusing; wait 20000; m3 healthy; wait 130000; ${restart}`,
    'is asked for nothing a minute later': 'proxy m3; wait 63000; watched m3; m1 unprobed',
    'is a fallback again when it was listed again and died':
      'proxy m3; wait 120000; proxy m1 m2 m3; wait 10000; m1 refusing; wait 20000; proxy m2 m3; wait 10000;' +
      `m1 healthy; ${others} targets m1`,
  });
});

describe('these stay a fallback', () => {
  testAgent({
    ...forEach(['refusing', 'silent', 'frozen', 'failing', 'ailing'], (behaviour) => [
      `one that was ${behaviour} when it left, and does well for minutes`,
      `m1 ${behaviour}; wait 20000; proxy m2 m3; wait 10000; m1 healthy; wait 300000; ${others} targets m1`,
    ]),
    ...forEach(['refusing', 'silent', 'frozen', 'failing', 'ailing'], (behaviour) => [
      `one that was ${behaviour} ten seconds after it had left, and does well since: it shut down`,
      `proxy m2 m3; wait 10000; m1 ${behaviour}; wait 20000; m1 healthy; wait 300000; ${others} targets m1`,
    ]),
    ...forEach(['refusing', 'silent', 'frozen', 'ailing'], (behaviour) => [
      `those that left while the last one that is listed was ${behaviour}, as it stays`,
      `m3 ${behaviour}; proxy m3; wait 600000; targets m1 m2`,
    ]),
    'those that left while no agent ran':
      'stop; proxy m3; start; wait 300000; m3 refusing; wait 10000; targets m1 m2',
    'those that were remembered alone when kube-proxy came to name another':
      'stop; clear; start; wait 60000; targets m1 m2 m3; proxy m3; wait 300000; m3 refusing; wait 10000; targets m1 m2',
  });

  testAgent(
    { 'those that --endpoints names': `${removed} m3 refusing; wait 10000; targets m1 m2` },
    { config: { endpoints: listTexts('m1 m2 m3').map(toEndpoint) } },
  );
});

describe.each([
  { family: 'ipv4', texts: ['10.77.0.11:6443', '10.77.0.12:6443', '10.77.0.13:6443'] },
  { family: 'ipv6', texts: ['[fd77::11]:6443', '[fd77::12]:6443', '[fd77::13]:6443'] },
] as const)('apiservers that the API took from its $family list while all did well', ({ family, texts }) => {
  test('get nothing when the last one restarts, also from an agent that was started since', async () => {
    const host = new Host();
    host.config = { ...host.config, vips: [vip, toEndpoint('[fd77::50]:6443')] };
    const [first, second, last] = texts;
    const listTargets = () =>
      texts.filter((text) => host.kernel.show(family, 'nft').includes(`--to-destination ${text}`));
    const list = async (listed: readonly string[], ms: number) => {
      host.running.api.list(family, listed);
      await host.clock.advance(ms);
    };
    await host.start();
    await host.clock.advance(10);
    await list([first, second, last], 5000);
    expect(listTargets()).toEqual(texts);
    await list([last], 300_000);
    for (const process of ['this', 'the next']) {
      host.set(last, 'refusing');
      for (let passed = 0; passed < 20; passed += 1) {
        await host.clock.advance(1000);
        expect([process, listTargets()]).toEqual([process, [last]]);
      }
      host.set(last, 'healthy');
      await host.running.agent.stop();
      await host.start();
      await list([last], 5000);
    }
    host.expectNoBreach();
  });
});

test('what is refused is in the plan, for people and for programs', async () => {
  const kernel = new FakeKernel(new FakeClock());
  const endpoints = ['10.77.0.11:6443', '127.0.0.1:6443'].map(toEndpoint);
  syncKubeProxy(kernel, { family: 'ipv4', dialect: 'nft' }, endpoints);
  const state = await lookOnce(kernel, ordinaryConfig);
  const sentence =
    '127.0.0.1:6443 is a loopback address, so vipnat does not use it as an apiserver (nat KUBE-SVC-NPX46M4PTMTKRN6Y (iptables-nft))';
  expect(formatCommands(state, 'm1')).toContain(`# Left out: ${sentence}.`);
  expect(JSON.parse(formatJson(state, 'm1'))).toMatchObject({ refused: [sentence] });
});
