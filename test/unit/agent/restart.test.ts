import { testAgent, forEach, play } from './timeline.ts';
import { listTexts } from './host.ts';
import { toEndpoint } from '../../support/fakes/endpoints.ts';
import { test, expect, describe } from '@jest/globals';

const sick = ['silent', 'failing', 'ailing', 'frozen', 'refusing'] as const;
const restart = (end: string) => `${end}; start; only m1 m2 for 1500;`;

testAgent({
  ...forEach(
    sick.flatMap((behaviour) => ['stop', 'kill'].map((end) => [behaviour, end] as const)),
    ([behaviour, end]) => [
      `while one apiserver is ${behaviour}, an agent that starts again after a ${end} keeps it out, and writes nothing`,
      `m3 ${behaviour}; wait 30000; targets m1 m2; mark; ${restart(end).repeat(3)} only m1 m2 for 18500;` +
        'writes 0; m3 healthy; wait 20000; targets proxy',
    ],
  ),
  ...forEach(sick, (behaviour) => [
    `while one apiserver is ${behaviour}, an agent that knows the apiservers from its state file alone keeps it out`,
    `stop; clear; start; wait 5000; m3 ${behaviour}; wait 30000; targets m1 m2; kill; start; only m1 m2 for 20000`,
  ]),
  'an agent that starts again while all apiservers refuse keeps all, and follows kube-proxy no sooner than they are back':
    'm1 m2 m3 refusing; wait 10000; targets m1 m2 m3; kill; start; only m1 m2 m3 for 10000;' +
    'm1 m2 m3 healthy; wait 20000; targets proxy',
  'an agent that starts again stays with the only one that lived, and leaves it when that one dies':
    'm2 refusing; m3 silent; wait 10000; targets m1; kill; m1 refusing; m2 healthy; start; wait 1000; targets m2',
  'one that served in place of those who are listed goes on serving when the agent starts again':
    'm1 m2 refusing; wait 5000; proxy m3; wait 2000; m3 frozen; m1 healthy; wait 30000; targets m1; mark;' +
    'kill; start; only m1 for 20000; writes 0',
  'an apiserver that the rules leave out and that is well is back within seconds':
    'm3 refusing; wait 5000; targets m1 m2; kill; m3 healthy; start; wait 5000; targets proxy',
});

testAgent(
  {
    'without kube-proxy one that is out stays out, whatever else lists it':
      'before; start; wait 5000; m3 frozen; wait 20000; targets m1 m2; mark; stop; start; only m1 m2 for 20000; writes 0',
  },
  { config: { endpoints: listTexts('m1 m2 m3').map(toEndpoint) } },
);

test('it is said of one that the rules leave out why it gets no connections yet', async () => {
  const { running } = await play('m3 frozen; wait 30000; kill; start; wait 1000');
  expect(running.agent.health.get('10.77.0.13:6443')).toMatchObject({
    state: 'warming',
    reason: 'the rules from before this start do not use it, and it has not been ready since',
  });
});

describe('rules that somebody has edited', () => {
  test('say nothing: everybody is trusted, as at any start', async () => {
    const host = await play('m3 frozen; wait 30000; kill');
    const [, chain = ''] = /^-A (VIPNAT-[0-9a-f]{10}) /m.exec(host.kernel.show('ipv4', 'nft')) ?? [];
    host.kernel.run('ipv4', 'nft', `*nat\n-I ${chain} -p udp -j RETURN\nCOMMIT\n`);
    await host.start();
    await host.clock.advance(1000);
    expect(host.targets).toBe('proxy');
  });
});
