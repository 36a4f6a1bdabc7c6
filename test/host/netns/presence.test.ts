import type { Outcomes } from './presence-child.ts';
import { beforeAll, describe, test, expect } from '@jest/globals';
import { toEndpoint } from '../../support/fakes/endpoints.ts';
import { runInNetworkNamespace } from '../../support/network/network-namespace.ts';

let outcomes: Outcomes;
beforeAll(async () => {
  outcomes = (await runInNetworkNamespace(new URL('presence-child.ts', import.meta.url))) as Outcomes;
});

describe('the agent of a network namespace', () => {
  test('is not found while there is none, and then with its version, process id and start', () => {
    expect(outcomes.before).toBeNull();
    expect(outcomes.during.found).toEqual({ version: '1.2.3', pid: 4711, since: '2026-01-01T00:00:00.000Z' });
  });

  test('keeps a second one from starting, which says who is there', () => {
    expect(outcomes.during.claim).toBe(
      'AGENT_ALREADY_RUNNING: an agent is already running in this network namespace: vipnat 1.2.3, pid 4711, since 2026-01-01T00:00:00.000Z. Stop that agent first',
    );
  });

  test('says how it finds the apiservers, and one that does not probe says nothing', () => {
    expect(outcomes.probing).toEqual({
      found: outcomes.during.found,
      health: [['10.0.0.11:6443', { state: 'dead', reason: 'refused', staleConnections: 'none' }]],
      api: {
        proxyOnly: { ipv6: [toEndpoint('[fd00::12]:6443')] },
        view: {
          endpoints: { ipv6: { value: [toEndpoint('[fd00::11]:6443')], seenIn: 'the API' } },
          clusterIps: { ipv6: 'fd00:96::1' },
          affinitySeconds: 60,
          refused: [],
          isCurrent: false,
        },
      },
    });
    expect([outcomes.mute, outcomes.gone]).toEqual([null, null]);
  });

  test('makes room for the next one when it ends', () => {
    expect(outcomes.after).toEqual({ claim: 'claimed', found: null });
  });
});

describe('something else that holds the name', () => {
  const pretenders = ['stranger', 'unresponsive', 'truncated', 'dripping', 'endless'] as const;
  test.each(pretenders)('is no agent, and the error says how to find it: %s', (holder) => {
    expect(outcomes[holder].found).toBeNull();
    expect(outcomes[holder].claim).toContain(
      "does not answer. Find the process with: ss -xlp 'src *vipnat-agent*'",
    );
  });
});
