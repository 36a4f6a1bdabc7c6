import {
  ago,
  makeObjects,
  makeSlice,
  makeElection,
  makeNodeLease,
  makeServed,
  toDetails,
} from '../../../support/fakes/service-view.ts';
import {
  makeService,
  publish,
  makeVirtualIp,
  makePool,
  nowMs,
} from '../../../support/fakes/service-objects.ts';
import { viewServices } from '../../../../cli/services/read-view.ts';
import type { ServiceView } from '../../../../cli/services/view.ts';
import { describe, test, expect } from '@jest/globals';
import { formatServices, formatService } from '../../../../cli/screens/services.ts';
import { formatServicesJson, formatServiceJson } from '../../../../cli/commands/services.ts';
import { makeDeviceService, publishOf, makeDevice } from '../../../support/fakes/device-objects.ts';

const isReady = { type: 'vipnat.io/AddressReady', status: 'True', reason: 'Ready' };
const ready = { ...isReady, lastTransitionTime: ago(7200) };
const refused = { type: 'Accepted', status: 'False', reason: 'PoolsOverlap', message: 'It overlaps pool.' };
const objects = makeObjects({
  services: [
    makeService('shop/web', { status: { ...publish('10.0.9.10', 'fd00:9::a'), conditions: [ready] } }),
    makeService('shop/api', { metadata: { creationTimestamp: ago(90) } }),
    makeService('default/x', { status: publish('10.0.9.11') }),
  ],
  virtualIps: [
    makeVirtualIp('10.0.9.10', ['shop/web']),
    makeVirtualIp('fd00:9::a', ['shop/web']),
    makeVirtualIp('10.0.9.11', ['default/x'], { spec: { seat: 1 } }),
    makeVirtualIp('10.0.9.12', ['shop/api'], { spec: { pool: 'small' } }),
  ],
  slices: [
    makeSlice('shop/web', [
      ['ready', 'w1'],
      ['ready', 'w2'],
      ['serving', 'w2'],
      ['not ready', 'w2'],
    ]),
    makeSlice('default/x', [['ready', 'w1']]),
  ],
  pools: [
    ...makeObjects({}).pools,
    makePool('small', { addresses: ['10.0.9.12'] }, { status: { conditions: [refused] } }),
  ],
  leases: [
    makeElection(300),
    makeNodeLease('w1', 2, {
      ...{ seats: ['pool/0'], mode: 'kube-proxy', inUse: ['10.0.9.19'] },
      unresponsive: [{ node: 'w9', since: ago(30) }],
    }),
    makeNodeLease('w2', 2, { programmed: { virtualips: '20', services: '9', endpointslices: '10' } }),
    makeNodeLease('w3', 600),
  ],
});
const view = viewServices(objects, nowMs);
const find = (key: string) => view.services.find((one) => one.key === key) as ServiceView;
const events = [
  { at: ago(60), type: 'Normal', reason: 'AddressReady', message: 'All nodes serve 10.0.9.10.', count: 1 },
  { at: ago(30), type: 'Warning', reason: 'AddressInUse', message: 'Another host answers.', count: 3 },
];

describe('vipnat services', () => {
  test('says of each where it is and why it does not work, then what all depend on', () => {
    expect(formatServices(view, nowMs))
      .toBe(`SERVICE    ADDRESS      HOLDER           PODS              SINCE  STATE
default/x  10.0.9.11    nobody           1                        NOT SERVED
  because 10.0.9.11: no node may hold it (seat pool/1)
shop/api   (10.0.9.12)  nobody           0                 1m30s  PENDING
  because no controller leads, so it gets no address
shop/web   10.0.9.10    w1 (kube-proxy)  2 of 3, 1 ending  2h00m  ready
           fd00:9::a    w1 (kube-proxy)

no controller leads: c1_x renewed its Lease 5m00s ago
AddressPool small: It overlaps pool
w3 has said nothing for 10m00s
w1: kube-proxy balances, vipnat's table does not count there
another host on the network of w1 answers for 10.0.9.19
w9 has not answered w1 for 30 s: its pods get no new connection from w1
3 Services: 1 not served, 1 pending, 1 ready
`);
  });

  test('says where there is none', () => {
    const none = viewServices(makeObjects({ pools: [], leases: [] }), nowMs);
    expect(formatServices(none, nowMs))
      .toBe(`no controller leads here: check --system-namespace, and that vipnat controller runs
there is no AddressPool. To make one: vipnat manifest services --pool RANGE, with all options that it had before
no Service of vipnat: none has an address, and none waits for one
`);
  });

  test('fits a narrow screen, and colours states only', () => {
    const screen = { isTerminal: true, width: 60, isColoured: true, isUnicode: true };
    const text = formatServices(view, nowMs, screen);
    expect(text).toContain('\u001b[31mPENDING\u001b[39m');
    expect(text).toContain('  because 10.0.9.11: no node may hold it (seat pool/1)\n');
  });

  test('says of one who holds it, who is behind it, which nodes have it, and what was said', () => {
    const details = { view: { ...view, pools: [] }, service: find('shop/web'), events };
    expect(formatService(details, nowMs)).toBe(`shop/web   ready · since 2h00m · 80/TCP · policy Cluster

  ADDRESS    SEAT    HOLDER           MAY HOLD IT
  10.0.9.10  pool/0  w1 (kube-proxy)  w1, w2
  fd00:9::a  pool/0  w1 (kube-proxy)  w1, w2

  ENDPOINT    PORTS  NODE  STATE
  10.244.0.1  8080   w1    ready
  10.244.0.2  8080   w2    ready
  10.244.0.3  8080   w2    ending, still serves
  10.244.0.4  8080   w2    not ready

  NODE  MODE        HEARD      PROGRAMMED
  w1    kube-proxy  2.0 s ago  yes
  w2    direct      2.0 s ago  not reported yet

  SEEN       EVENT         WHAT
  1m00s ago  AddressReady  All nodes serve 10.0.9.10.
  30 s ago   AddressInUse  Another host answers. (3 times)

no controller leads: c1_x renewed its Lease 5m00s ago
there is no AddressPool. To make one: vipnat manifest services --pool RANGE, with all options that it had before
w3 has said nothing for 10m00s
w1: kube-proxy balances, vipnat's table does not count there
another host on the network of w1 answers for 10.0.9.19
w9 has not answered w1 for 30 s: its pods get no new connection from w1
`);
  });

  test('says of one which nodes have no balancer, and that events may not be read', () => {
    const leases = [makeElection(), makeNodeLease('w1', 60)];
    const unresponsive = viewServices({ ...objects, leases }, nowMs);
    const service = unresponsive.services.find(({ key }) => key === 'shop/web') as ServiceView;
    const text = formatService({ view: unresponsive, service, events: null }, nowMs);
    expect(text).toMatch(/ {2}w1 {10}1m00s ago {2}no balancer\n {2}w2 {10}never {6}no balancer\n/);
    expect(text).toContain('events: these credentials may not list events\n');
  });

  test('says the same to programs', () => {
    expect(JSON.parse(formatServicesJson(view))).toMatchObject({
      version: 1,
      services: [
        { namespace: 'default', name: 'x', state: 'not served', reason: 'NoLivingNode' },
        {
          ...{ name: 'api', state: 'pending' },
          addresses: [{ address: '10.0.9.12', published: false, pool: 'small' }],
        },
        {
          ...{ name: 'web', state: 'ready', why: null, since: ago(7200) },
          pods: { ready: 2, ending: 1, notReady: 1 },
          addresses: [{ seatHolders: [{ node: 'w1', mode: 'kube-proxy' }], nodes: ['w1', 'w2'] }, {}],
        },
      ],
      controller: { leading: false, leader: 'c1_x', secondsSinceRenewal: 300 },
      pools: [{ name: 'pool' }, { name: 'small', conditions: [refused] }],
      nodes: [{ node: 'w1', living: true, addressesInUse: ['10.0.9.19'] }, {}, { node: 'w3', living: false }],
    });
    expect(JSON.parse(formatServiceJson({ view, service: find('shop/web'), events }))).toMatchObject({
      service: {
        conditions: [ready],
        endpoints: [
          { address: '10.244.0.1', ports: [8080], state: 'ready', serving: true, node: 'w1' },
          { state: 'ready' },
          { state: 'ending', serving: true },
          { state: 'not ready', serving: false },
        ],
        programmed: [
          { node: 'w1', living: true, programmed: true },
          { node: 'w2', programmed: false },
        ],
      },
      events,
    });
  });
});

describe('a pod that drains', () => {
  const drain = (endpoint: string, seconds: number, connections: number | null) => ({
    draining: [{ service: 'default/x', endpoint, since: ago(seconds), connections }],
  });
  const show = (...leases: ReturnType<typeof makeNodeLease>[]) => {
    const served = makeServed(
      [
        ['ready', 'w1'],
        ['serving', 'w2'],
      ],
      { leases: [makeElection(), ...leases] },
    );
    const details = toDetails(served);
    return {
      overview: formatServices(details.view, nowMs),
      ...{ text: formatService(details, nowMs), json: formatServiceJson(details) },
    };
  };

  test('is shown with the time of the first node that says so, and the connections of all that live', () => {
    const { overview, text, json } = show(
      makeNodeLease('w1', 2, drain('10.244.0.2', 12, 3)),
      makeNodeLease('w2', 2, drain('10.244.0.2', 10, 1)),
      makeNodeLease('w3', 2, drain('10.244.0.2', 11, null)),
      makeNodeLease('w4', 600, drain('10.244.0.2', 700, 9)),
    );
    expect(text).toMatch(
      /10\.244\.0\.2 +8080 +w2 +ending, no new connections for 12 s, 4 connections left \(w1: 3, w2: 1\)\n/,
    );
    expect(JSON.parse(json)).toMatchObject({
      service: {
        endpoints: [
          { draining: null },
          {
            draining: {
              ...{ since: ago(12), connections: 4 },
              nodes: [
                { node: 'w1', since: ago(12), connections: 3 },
                { node: 'w2', since: ago(10), connections: 1 },
                { node: 'w3', since: ago(11), connections: null },
              ],
            },
          },
        ],
      },
    });
    expect(overview).toContain('1, 1 ending, 4 open');
  });

  test('before anybody has counted is shown without a number, and one that is ready drains by its weight', () => {
    expect(show(makeNodeLease('w1', 2, drain('10.244.0.2', 3, null))).text).toMatch(
      /ending, no new connections for 3\.0 s\n/,
    );
    expect(show(makeNodeLease('w1', 2, drain('10.244.0.1', 3, 1))).text).toMatch(
      /10\.244\.0\.1 .* draining, no new connections for 3\.0 s, 1 connection left \(w1: 1\)\n/,
    );
  });
});

describe('a device', () => {
  const units = [
    { unit: 'https://10.0.0.11', role: 'active', isInSync: true, why: '' },
    { unit: 'https://10.0.0.12', role: 'standby', isInSync: false, why: '' },
  ];
  const said = {
    ...{ lastTransitionTime: ago(7200), reason: 'ForeignChanges', status: 'False' },
    ...{ units, balancers: 2, foreignChanges: ['+ /c/slb/virt 7'] },
    draining: [{ service: 'shop/a', member: '10.1.2.3:8080', since: ago(12), sessions: 4 }],
  };
  const view = viewServices(
    makeObjects({
      services: [
        makeDeviceService('shop/a', 'edge', { status: publishOf('10.9.0.1') }),
        makeDeviceService('shop/b', 'gone'),
        // Nodes had it before.
        makeDeviceService('shop/c', 'gone', { status: publish('10.0.9.10') }),
      ],
      slices: [makeSlice('shop/a', [['ready', 'w1']])],
      devices: [makeDevice('edge', { driver: 'alteon' }, {}, said), makeDevice('new')],
    }),
    nowMs,
  );

  test('is shown with its units, what waits there, and the Services that it has', () => {
    expect(formatServices(view, nowMs)).toBe(`SERVICE  ADDRESS    HOLDER       PODS       SINCE  STATE
shop/a   10.9.0.1   device edge  1, 4 open         ready
shop/b   none       device gone  0                 PENDING
  because there is no LoadBalancerDevice gone
shop/c   10.0.9.10  nobody       0                 NOT SERVED
  because there is no LoadBalancerDevice gone

DEVICE  DRIVER  SERVICES  DRAINING  SINCE  STATE
edge    alteon         2         1  2h00m  NOT READY, ForeignChanges
  https://10.0.0.11 active
  https://10.0.0.12 standby, behind
  because changes of other users wait: + /c/slb/virt 7
new     plain                    0         NOT READY, NotSeen
  because no controller has looked at it yet

3 Services: 1 ready, 1 pending, 1 not served
`);
  });

  test('is shown with one Service, and the members that drain; programs get the same', () => {
    const [service] = view.services as [ServiceView];
    const details = { view, service, events: [] };
    expect(formatService(details, nowMs)).toBe(`shop/a   ready · 80/TCP · policy Cluster

  ADDRESS   SEAT  HOLDER       MAY HOLD IT
  10.9.0.1  none  device edge  its units

  ENDPOINT    PORTS  NODE  STATE
  10.244.0.1  8080   w1    ready

  MEMBER         DEVICE  STATE
  10.1.2.3:8080  edge    no new connections for 12 s, 4 sessions left

  DEVICE  DRIVER  SERVICES  DRAINING  SINCE  STATE
  edge    alteon         2         1  2h00m  NOT READY, ForeignChanges
    https://10.0.0.11 active
    https://10.0.0.12 standby, behind
    because changes of other users wait: + /c/slb/virt 7
`);
    expect(JSON.parse(formatServiceJson(details))).toMatchObject({
      service: {
        addresses: [{ address: '10.9.0.1', device: 'edge' }],
        devices: [{ name: 'edge', draining: [{ member: '10.1.2.3:8080', since: ago(12), sessions: 4 }] }],
      },
      devices: [
        {
          ...{ name: 'edge', ready: false, reason: 'ForeignChanges', services: 2, draining: 1 },
          ...{ since: ago(7200), foreignChanges: ['+ /c/slb/virt 7'] },
          units: [{ role: 'active' }, { unit: 'https://10.0.0.12', role: 'standby', inSync: false }],
        },
        { name: 'new', ready: null },
      ],
    });
  });
});
