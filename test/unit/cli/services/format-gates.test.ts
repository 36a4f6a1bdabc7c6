import { describe, expect, test } from '@jest/globals';
import { formatServiceJson } from '../../../../cli/format/json/services-json.ts';
import { formatService } from '../../../../cli/format/screens/service.ts';
import { formatServices } from '../../../../cli/format/screens/services.ts';
import { viewServices } from '../../../../cli/services/view-services.ts';
import { makeService, makeVirtualIp, nowMs, publish } from '../../../support/fakes/service-objects.ts';
import {
  makeEarly,
  makeElection,
  makeNodeLease,
  makeObjects,
  makeSlice,
} from '../../../support/fakes/service-view.ts';

describe('a pod that waits for its gate', () => {
  const show = (earlyslices: string) => {
    const objects = makeObjects({
      services: [makeService('default/x', { status: publish('10.0.9.10') })],
      virtualIps: [makeVirtualIp('10.0.9.10', ['default/x'])],
      slices: [
        makeSlice('default/x', [
          ['ready', 'w1'],
          ['not ready', 'w2'],
          ['not ready', 'w2'],
          ['serving', 'w2'],
        ]),
      ],
      earlySlices: [makeEarly('default/x', [1, 2, 4], '30')],
      leases: [
        makeElection(),
        makeNodeLease('w1', 2, {
          seats: ['pool/0'],
          programmed: { virtualips: '20', services: '10', endpointslices: '10', earlyslices },
        }),
      ],
    });
    const view = viewServices(objects, nowMs);
    const [service] = view.services;
    if (service === undefined) throw new Error('there is one');
    const details = { view, service, events: [] };
    return {
      list: formatServices(view, nowMs),
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
    expect(JSON.parse(json)).toMatchObject({
      service: {
        pods: { notReady: 2, waitingForGates: 1 },
        endpoints: [
          { waitingForGate: false },
          { waitingForGate: true },
          { waitingForGate: false },
          { waitingForGate: false },
        ],
      },
    });
  });

  test('is awaited of nodes that have not said that they send connections to it', () => {
    expect(show('30').text).toMatch(/ w1 .* yes\n/);
    expect(show('29').text).toMatch(/ w1 .* not reported yet\n/);
  });
});
