import { describe, test, expect } from '@jest/globals';
import { testAgent, forEach } from './timeline.ts';
import { listTexts, Host, vip } from './host.ts';
import { toEndpoint } from '../../support/fakes/endpoints.ts';

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
