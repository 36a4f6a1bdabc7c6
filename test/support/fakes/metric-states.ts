import type { BalancerState } from '../../../balancer/report.ts';
import type { ControllerState } from '../../../controller/report/metrics.ts';
import { makeDeviceCache, makeDevice } from './device-objects.ts';
import {
  makeNode,
  makePod,
  makePool,
  makeVirtualIp,
  makeService,
  publish,
  nowMs,
} from './service-objects.ts';

/** An endpoint that drains, with so many connections; null for one that is not counted yet. */
function drain(connections: number | null): BalancerState['draining'][number] {
  return { service: 'default/web', endpoint: '10.244.1.2', since: '2027-01-15T08:00:00Z', connections };
}

export const balancerState: BalancerState = {
  ...{
    ...{ services: 3, left: ['default/web'], elements: 40, isFollowing: true, behindMs: 0 },
    ...{ inUse: ['10.0.9.19'], isWatched: false, unreadable: [] },
  },
  kinds: new Map([
    ['Service', true],
    ['EndpointSlice', false],
  ]),
  syncedAt: new Date('2027-01-15T08:00:00Z'),
  mode: 'direct',
  seats: ['pool/0', 'pool/1'],
  held: ['pool/1'],
  draining: [drain(5), drain(null), drain(2)],
  counts: { changes: 0, repairs: 0, failures: new Map() },
  outages: { out: new Set(['w2']), lost: new Set(), unheard: new Set() },
  ...{ unheard: [], zone: null, endings: new Map(), kept: new Set(), isControllerAway: false },
  memories: new Map([['ipv4 clients/default/web/tcp/80/60', 0.5]]),
  nodes: { asked: 3, probes: 12 },
};

const cache = makeDeviceCache({
  nodes: [makeNode('w1')],
  pods: [makePod('shop/p'), makePod('shop/q', { status: { conditions: [] } })],
  pools: [makePool('pool', { addresses: ['10.0.9.10-10.0.9.11', 'fd00:9::/126'] })],
  virtualIps: [makeVirtualIp('10.0.9.10', ['shop/web']), makeVirtualIp('10.0.9.11', [])],
  services: [
    makeService('shop/web', { status: publish('10.0.9.10') }),
    makeService('shop/api'),
    makeService('shop/others', { spec: { loadBalancerClass: 'example.com/lb' } }),
    makeService('shop/inner', { spec: { type: 'ClusterIP', loadBalancerClass: null } }),
    makeService('shop/leaving', { metadata: { deletionTimestamp: '2027-01-15T08:00:00Z' } }),
  ],
  devices: [makeDevice('edge'), makeDevice('new')],
});
const toUnit = (unit: string, role: string, isInSync: boolean | null) => ({
  ...{ unit, role, isInSync, why: '' },
});
cache.take('deviceReports', {
  key: 'edge',
  after: {
    ...{ generation: 1, balancers: 2, isReady: false, reason: 'ForeignChanges', message: '' },
    units: [toUnit('a', 'active', null), toUnit('b', 'standby', false), toUnit('c', 'silent', null)],
    foreignChanges: ['x'],
    draining: [{ service: 'a/b', member: '10.1.0.1:80', since: '2027-01-15T08:00:00Z', sessions: 3 }],
  },
});

/** Of a controller that leads, with Services, a pool of both families and two devices. */
export const controllerState: ControllerState = {
  ...{ isLeading: true, leader: 'c1', view: cache.view(nowMs), writes: new Map(), unreadable: [] },
  statistics: {
    ...{ depth: 1, working: 1, delayed: 2, turns: 9, failures: 4, longestWaitMs: 1500, longestTurnMs: 0 },
  },
  ...{ deviceCalls: new Map([['edge', 7]]), kinds: new Map(), webhook: null },
};
