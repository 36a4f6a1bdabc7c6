import { expect, test } from '@jest/globals';
import { readAgentApiAnswer } from '../../../../agent/http/agent-api.ts';

const endpoint = { family: 'ipv4', address: '10.0.0.11', port: 6443 };

function answer(changes: object = {}) {
  const value = [{ ...endpoint, ...changes }];
  const rest = { clusterIps: { ipv4: '10.96.0.1' }, affinitySeconds: 60, refused: ['a'], isCurrent: true };
  const proxyBesideApi = { ipv4: value };
  return { proxyBesideApi, view: { endpoints: { ipv4: { value, seenIn: 'the API' } }, ...rest, ...changes } };
}

test('what the agent says is taken as it says it', () => {
  expect(readAgentApiAnswer(answer())).toEqual(answer());
  expect(readAgentApiAnswer({ view: null })).toEqual({ view: null, proxyBesideApi: {} });
});

test.each([
  { address: '10.0.0.11\n-A PREROUTING -j ACCEPT' },
  { address: '10.0.0.11;reboot' },
  { address: 'fd00::11' },
  { address: 'FD00::11', family: 'ipv6' },
  { port: 0 },
  { port: 1.5 },
  { port: 65_536 },
  { clusterIps: { ipv4: '$(reboot)' } },
  { clusterIps: { ipv6: '10.96.0.1' } },
  { affinitySeconds: 1e21 },
  { affinitySeconds: 0 },
])('whoever else has its name cannot have this written into a rule: %j', (changes) => {
  expect(readAgentApiAnswer(answer(changes))).toBeNull();
});

test('its sentences are lines', () => {
  expect(readAgentApiAnswer(answer({ refused: ['two\nlines \u001b[2J'] }))?.view?.refused).toEqual([
    String.raw`two lines \u001b[2J`,
  ]);
});
