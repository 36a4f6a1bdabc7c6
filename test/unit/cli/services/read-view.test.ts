import { describe, test, expect } from '@jest/globals';
import { makePod, makeService, nowMs } from '../../../support/fakes/service-objects.ts';
import type { Pod } from '../../../../lib/api/endpoints.ts';
import {
  makeElection,
  makeServed,
  toDetails,
  makeEarly,
  makeNodeLease,
  ago,
} from '../../../support/fakes/service-view.ts';
import { selectPodsOf } from '../../../../cli/services/read-view.ts';
import { formatServices, formatService } from '../../../../cli/screens/services.ts';
import { formatServiceJson } from '../../../../cli/commands/services.ts';

describe('a pod that waits for its gate', () => {
  const place = (index: number, parts: object = {}) => {
    const status = { podIP: `10.244.0.${index}`, podIPs: [{ ip: `10.244.0.${index}` }] };
    return makePod(`default/pod-${index}`, { status, ...parts });
  };
  const show = (
    earlyslices: string,
    { pods = [] as Pod[], early = [1, 2, 4], election = makeElection() } = {},
  ) => {
    const programmed = { virtualips: '20', services: '10', endpointslices: '10', earlyslices };
    const details = toDetails(
      makeServed(
        [
          ['ready', 'w1'],
          ['not ready', 'w2'],
          ['not ready', 'w2'],
          ['serving', 'w2'],
        ],
        {
          pods,
          earlySlices: early.length === 0 ? [] : [makeEarly('default/x', early, '30')],
          leases: [election, makeNodeLease('w1', 2, { seats: ['pool/0'], programmed })],
        },
      ),
    );
    return {
      list: formatServices(details.view, nowMs),
      text: formatService(details, nowMs),
      json: formatServiceJson(details),
    };
  };

  test('is shown by what the controller says of it before Kubernetes does', () => {
    const { list, text, json } = show('30');
    expect(list).toContain(' 1 of 3, 1 gated, 1 ending ');
    expect(text).toMatch(/10\.244\.0\.2 .* not ready, waits for its readiness gate\n/);
    expect(text).toMatch(/10\.244\.0\.3 +8080 +w2 +not ready\n/);
    expect(text.match(/gate/g)).toHaveLength(1);
    expect(list).toMatch(/^10\.244\.0\.2 of default\/x waits for its readiness gate$/m);
    const endpoints = [false, true, false, false].map((waitingForGate) => ({ waitingForGate }));
    expect(JSON.parse(json)).toMatchObject({
      service: { pods: { notReady: 2, waitingForGates: 1 }, endpoints },
    });
  });

  test('is shown with the time since when it lacks nothing else, and the nodes that have not reported it', () => {
    const gate = { spec: { readinessGates: [{ conditionType: 'example.com/gate' }] } };
    const election = makeElection(2, 'c1_x', ['example.com/gate']);
    const { list, text, json } = show('29', { pods: [place(2, gate)], election });
    const detail = 'waits for its readiness gate \\(1m00s\\), not reported by w1';
    expect(text).toMatch(new RegExp(`10\\.244\\.0\\.2 .* not ready, ${detail}\n`));
    expect(list).toMatch(new RegExp(`^default/pod-2 ${detail}$`, 'm'));
    const endpoint = { gate: { pod: 'default/pod-2', since: ago(60), nodes: ['w1'] } };
    expect((JSON.parse(json) as { service: { endpoints: object[] } }).service.endpoints[1]).toMatchObject(
      endpoint,
    );
    expect(show('30', { pods: [place(2, gate)], election }).list).toMatch(/^default\/pod-2 .* \(1m00s\)$/m);
  });

  test('is found without a controller by gates that the last one opened, and by no gate of others', () => {
    const gate = (conditionType: string) => ({ spec: { readinessGates: [{ conditionType }] } });
    const list = (other: Pod) =>
      show('30', {
        pods: [place(2, gate('example.com/ours')), other],
        early: [],
        election: makeElection(600, '', ['example.com/ours']),
      }).list;
    expect(list(place(3))).toMatch(/^default\/pod-2 waits for its readiness gate \(1m00s\)$/m);
    expect(list(place(3))).toMatch(/^default\/pod-3 waits for its readiness gate \(1m00s\)$/m);
    expect(list(place(3, gate('example.com/theirs')))).not.toContain('pod-3');
  });

  test('is awaited of nodes that have not said that they send connections to it', () => {
    expect(show('30').text).toMatch(/ w1 .* yes\n/);
    expect(show('29').text).toMatch(/ w1 .* not reported yet\n/);
  });

  test('is read with the other pods that its Service selects, and with those that have ended it is not', () => {
    const selector = { app: 'web', 'example.com/tier': 'front' };
    const { path, selector: query } = selectPodsOf(makeService('shop/web', { spec: { selector } }));
    expect(path).toBe('/api/v1/namespaces/shop/pods');
    expect(Object.fromEntries(new URLSearchParams(query))).toEqual({
      fieldSelector: 'status.phase!=Succeeded,status.phase!=Failed',
      labelSelector: 'app=web,example.com/tier=front',
    });
  });
});
