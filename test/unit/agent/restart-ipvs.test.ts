import { readFileSync } from 'node:fs';
import { listTexts, type Host } from './host.ts';
import { toEndpoint } from '../../support/fakes/endpoints.ts';
import { testAgent, play } from './timeline.ts';
import { test, expect } from '@jest/globals';
import { ordinaryConfig } from '../../support/agent/running-agent.ts';

const virtualServers = readFileSync(
  'test/support/fixtures/captures/proc-net-ip_vs.three-endpoints.txt',
  'utf8',
);
const beginning = {
  config: { proxyMode: 'ipvs', endpoints: listTexts('m1 m2 m3').map(toEndpoint) },
  prepare: ({ kernel }: Host) => {
    kernel.setIpvs(virtualServers);
  },
} as const;

testAgent(
  {
    'an agent that starts again beside kube-proxy in ipvs mode takes the virtual server for no apiserver, and writes nothing':
      'before; start; wait 5000; targets 10.96.0.1:443; mark; stop; start; wait 200; health m1 ready, m2 ready, m3 ready;' +
      'wait 10000; writes 0',
  },
  beginning,
);

test('one that starts while the virtual server is gone takes it for no apiserver any more once it is back, whatever mode kube-proxy is in', async () => {
  const host = await play('before; start; wait 5000; stop', beginning);
  host.kernel.setIpvs('');
  host.store.saves.splice(0);
  host.config = ordinaryConfig;
  await host.start();
  await host.clock.advance(200);
  expect(host.health).toBe('10.96.0.1:443 ready');
  host.kernel.setIpvs(virtualServers);
  host.kernel.trigger('ipvs');
  await host.clock.advance(60_000);
  expect([host.health, host.targets]).toEqual(['', '']);
});
