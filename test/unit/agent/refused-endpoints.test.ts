import { test, expect } from '@jest/globals';
import { FakeKernel } from '../../support/fakes/kernel.ts';
import { FakeClock } from '../../support/fakes/clock.ts';
import { toEndpoint } from '../../support/fakes/endpoints.ts';
import { syncKubeProxy } from '../../support/kube-proxy/in-memory.ts';
import { lookOnce } from '../../support/agent/captured-host.ts';
import { ordinaryConfig, startAgent, linesOf } from '../../support/agent/running-agent.ts';
import { formatCommands } from '../../../cli/screens/plan.ts';
import { formatJson } from '../../../cli/commands/plan.ts';
import { formatEndpoint } from '../../../lib/net.ts';

test('what is refused is in the plan, for people and for programs', async () => {
  const kernel = new FakeKernel(new FakeClock());
  const endpoints = ['10.77.0.11:6443', '127.0.0.1:6443'].map((text) => toEndpoint(text));
  syncKubeProxy(kernel, { family: 'ipv4', dialect: 'nft' }, endpoints);
  const state = await lookOnce(kernel, ordinaryConfig);
  const sentence =
    '127.0.0.1:6443 is a loopback address, so vipnat does not use it as an apiserver (nat KUBE-SVC-NPX46M4PTMTKRN6Y (iptables-nft))';
  expect(formatCommands(state, 'm1')).toContain(`# Left out: ${sentence}.`);
  expect(JSON.parse(formatJson(state, 'm1'))).toMatchObject({ refused: [sentence] });
});

test('what kube-proxy lists and no apiserver can be at gets no connection, is said once, and is never saved', async () => {
  const clock = new FakeClock();
  const kernel = new FakeKernel(clock);
  const [good, atVip, loopback] = ['10.77.0.11:6443', '10.0.0.50:6443', '127.0.0.1:6443'].map((text) =>
    toEndpoint(text),
  );
  syncKubeProxy(
    kernel,
    { family: 'ipv4', dialect: 'nft' },
    [good, atVip, loopback].filter((one) => one !== undefined),
  );
  const running = startAgent({ clock, kernel });
  await clock.advance(600_000);
  const targets = [...kernel.show('ipv4', 'nft').matchAll(/-A VIPNAT-\w+ .*--to-destination (\S+)/g)];
  expect(targets.map(([, target]) => target)).toEqual(['10.77.0.11:6443']);
  expect(linesOf(running, 'warn')).toEqual([
    "10.0.0.50:6443 is the address of a virtual IP, so vipnat does not use it as an apiserver (nat KUBE-SVC-NPX46M4PTMTKRN6Y (iptables-nft)). Set --advertise-address of each kube-apiserver to its own host's address",
    '127.0.0.1:6443 is a loopback address, so vipnat does not use it as an apiserver (nat KUBE-SVC-NPX46M4PTMTKRN6Y (iptables-nft))',
  ]);
  expect(running.store.saves.map(({ endpoints }) => endpoints.map(formatEndpoint))).toEqual([
    ['10.77.0.11:6443'],
  ]);
});
