import { describe, expect, test } from '@jest/globals';
import { listGateWaits } from '../../../../cli/doctor/facts/gate-waits.ts';
import { type ServiceObjects } from '../../../../cli/services/services-view.ts';
import {
  makeCluster,
  services,
  tellServices,
  well,
  wellHost,
} from '../../../support/doctor/services-host.ts';
import {
  makePod,
  makeService,
  makeVirtualIp,
  nowMs,
  publish,
} from '../../../support/fakes/service-objects.ts';
import {
  ago,
  makeEarly,
  makeElection,
  makeNodeLease,
  makeObjects,
  makeSlice,
} from '../../../support/fakes/service-view.ts';

const ready = (seconds: number) => ({
  type: 'ContainersReady',
  status: 'True',
  lastTransitionTime: ago(seconds),
});

/** A pod whose containers have been ready for so long; the second of its Service unless it has none. */
function makeWaiting(name: string, seconds: number, address = '10.244.0.2') {
  return makePod(`default/${name}`, {
    metadata: { creationTimestamp: ago(seconds + 5) },
    status: { podIP: address, podIPs: [{ ip: address }], conditions: [ready(seconds)] },
  });
}

async function tellOf(pods: ServiceObjects['pods'], parts: Partial<ServiceObjects> = {}) {
  const given = {
    services: [makeService('default/x', { status: publish('10.0.9.10') })],
    virtualIps: [makeVirtualIp('10.0.9.10', ['default/x'])],
    slices: [
      makeSlice('default/x', [
        ['ready', 'w1'],
        ['not ready', 'w2'],
      ]),
    ],
    earlySlices: [makeEarly('default/x', [2], '30')],
    leases: [
      makeElection(),
      makeNodeLease('w1', 2, { seats: ['pool/0'], programmed: { earlyslices: '29' } }),
    ],
    ...parts,
  };
  const gateWaits = { value: listGateWaits(makeObjects(given), pods, nowMs) };
  const cluster = { value: makeCluster(given) };
  const all = await tellServices({
    ...wellHost,
    ...services({ ...well, cluster, poolUsers: { value: new Map() }, gateWaits }),
  });
  return all.filter(({ code, level }) => code === 'pod-waits-for-gate' && level !== 'ok');
}

describe('pod-waits-for-gate', () => {
  test('names pods that have waited for more than a minute, and the nodes that have not reported them', async () => {
    const [told, ...others] = await tellOf([makeWaiting('pod-2', 130), makeWaiting('late', 61, '10.9.9.9')]);
    expect(others).toEqual([]);
    expect(told).toMatchObject({
      ...{ code: 'pod-waits-for-gate', level: 'warn' },
      title: '2 pods wait for a readiness gate: default/pod-2 (2m10s), default/late (1m01s)',
      why: expect.stringContaining('have not reported that they send connections to the pod: w1.'),
    });
  });

  test('without a controller says that no gate opens, and only has what prints', async () => {
    const leases = [makeElection(100), makeNodeLease('w1')];
    const told = await tellOf([makeWaiting('pod-2', 3600)], { leases, earlySlices: [] });
    expect(told).toMatchObject([
      {
        ...{ code: 'pod-waits-for-gate', why: expect.stringContaining('No controller leads') },
        remedy: [
          expect.stringMatching(/^# /),
          expect.stringMatching(/^# .*docs\/services\.md says how kubectl opens the gates$/),
        ],
      },
    ]);
  });

  test('says nothing of pods that wait for less, end, are open, or wait for others', async () => {
    const open = { ...ready(100), type: 'vipnat.io/load-balancer-ready' };
    const foreign = [
      { conditionType: 'example.com/gate' },
      { conditionType: 'vipnat.io/load-balancer-ready' },
    ];
    const pods = [
      makeWaiting('short', 59),
      makePod('default/ends', { metadata: { creationTimestamp: ago(99), deletionTimestamp: ago(80) } }),
      makePod('default/open', { status: { conditions: [ready(100), open] } }),
      makePod('default/foreign', { spec: { readinessGates: foreign }, status: { conditions: [ready(100)] } }),
      makePod('default/starts', { status: { conditions: [{ ...ready(100), status: 'False' }] } }),
    ];
    expect(await tellOf(pods)).toEqual([]);
  });
});
