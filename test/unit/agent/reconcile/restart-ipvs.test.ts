import { expect, test } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { FakeKernel } from '../../../support/fakes/kernel.ts';

import { ordinaryConfig, type RunningAgent, startAgent } from '../../../support/agent/running-agent.ts';

const apiservers = ['10.77.0.11:6443', '10.77.0.12:6443', '10.77.0.13:6443'];
const server = '10.96.0.1:443';

const config = {
  ...ordinaryConfig,
  proxyMode: 'ipvs',
  endpoints: apiservers.map((text) => toEndpoint(text)),
} as const;

const virtualServers = readFileSync(
  'test/support/fixtures/captures/proc-net-ip_vs.three-endpoints.txt',
  'utf8',
);

function start(clock: FakeClock, kernel: FakeKernel): RunningAgent {
  return startAgent({ clock, kernel, config });
}

test('an agent that starts again beside kube-proxy in ipvs mode takes the virtual server for no apiserver, and writes nothing', async () => {
  const clock = new FakeClock();
  const kernel = new FakeKernel(clock);
  kernel.setIpvs(virtualServers);
  const before = start(clock, kernel);
  await clock.advance(5000);
  expect(kernel.show('ipv4', 'nft')).toContain(`--to-destination ${server}`);
  await before.agent.stop();
  const writes = kernel.applied.length;

  const { agent } = start(clock, kernel);
  await clock.advance(200);
  expect([...agent.health].map(([text, { state }]) => `${text} ${state}`)).toEqual(
    apiservers.map((text) => `${text} ready`),
  );
  await clock.advance(10_000);
  expect(kernel.applied).toHaveLength(writes);
});

test('one that starts while the virtual server is gone takes it for no apiserver any more once it is back, whatever mode kube-proxy is in', async () => {
  const clock = new FakeClock();
  const kernel = new FakeKernel(clock);
  kernel.setIpvs(virtualServers);
  const before = start(clock, kernel);
  await clock.advance(5000);
  await before.agent.stop();

  kernel.setIpvs('');
  const { agent } = startAgent({ clock, kernel, config: ordinaryConfig });
  await clock.advance(200);
  expect([...agent.health.keys()]).toEqual([server]);

  kernel.setIpvs(virtualServers);
  kernel.trigger('ipvs');
  await clock.advance(60_000);
  expect([...agent.health.keys()]).toEqual([]);
  expect(kernel.show('ipv4', 'nft')).not.toContain(`--to-destination ${server}`);
});
