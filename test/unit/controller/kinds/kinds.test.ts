import { describe, test, expect } from '@jest/globals';
import {
  makeService,
  makeVirtualIp,
  makeReport,
  makePool,
  makeCache,
  makeNode,
  nowMs,
  toServiceKey,
  publish,
  makeNamespace,
} from '../../../support/fakes/service-objects.ts';
import { getWrite, decide, nextStep, tell, testDecisions } from '../../../support/fakes/service-steps.ts';
import { finalizer } from '../../../../lib/api/vipnat.ts';
import { countSteps } from '../../../support/fakes/count-steps.ts';
import { makeSeat } from '../../../support/fakes/seat-objects.ts';

const shared = { 'vipnat.io/share': 'k' };
const dns = { ports: [{ port: 53, protocol: 'UDP' }] };
const other = makeService('apps/b', { metadata: { annotations: shared }, spec: dns });
const sharedIps = [makeVirtualIp('10.0.9.10', ['apps/b'], { spec: { shareKey: 'k' } })];
const dual = { ipFamilies: ['IPv4', 'IPv6'], ipFamilyPolicy: 'RequireDualStack' };
const own = [makeVirtualIp('10.0.9.10', ['apps/a'])];
const services = [makeService('apps/a')];
const published = [makeService('apps/a', { status: publish('10.0.9.10') })];
const external = makeService('infra/x', { spec: { type: 'ClusterIP', externalIPs: ['10.0.9.10'] } });
const asking = (address: string, more: object = {}) =>
  makeService('apps/a', { metadata: { annotations: { 'vipnat.io/addresses': address } }, ...more });
const two = [makePool('pool', { addresses: ['10.0.9.10-10.0.9.11'] })];
const reports = [makeReport('node-1', 20)];
const amiss = (what: string) => {
  const said = { [what]: { 'apps/a': 'nft does not take 10.244.1.2' } };
  return [makeReport('node-1', 20, said), makeReport('elsewhere', 20, said)];
};
const noTenant = { matchExpressions: [{ key: 'tenant', operator: 'DoesNotExist' }] };
const selecting = {
  pools: [makePool('pool', { addresses: ['10.0.9.10'], namespaceSelector: noTenant })],
  services: [makeService('apps/a', { metadata: { annotations: { 'vipnat.io/pool': '' } } })],
};
const created = `POST VirtualIP 10.0.9.10; finalizers ${finalizer}; services apps/a; leaving none; event Normal AddressAllocated`;
const exhausted = 'PATCH Service apps/a; ingress none; False PoolExhausted; event Warning NoAddress';
const noPool = exhausted.replace('PoolExhausted', 'NoPool');
const taken = exhausted.replace('PoolExhausted', 'AddressTaken');
const stays = 'PATCH Service apps/a; ingress 10.0.9.10 VIP';

describe('a Service that is to have an address', () => {
  testDecisions({
    'gets the finalizer first, beside those of others': [
      { services: [makeService('apps/a', { metadata: { finalizers: ['other.io/it'] } })] },
      `PATCH Service apps/a; finalizers other.io/it,${finalizer}`,
    ],
    'then a VirtualIP, whose name is the lock': [{ services }, created],
    'is published with its VirtualIP confirmed': [
      { services, virtualIps: own, reports },
      `${stays}; True Ready; if virtualips/10.0.9.10 is 20; event Normal AddressReady`,
    ],
    'shares an address under the same key with other ports': [
      {
        services: [makeService('apps/a', { metadata: { annotations: shared } }), other],
        virtualIps: sharedIps,
      },
      'PATCH VirtualIP 10.0.9.10; services apps/b,apps/a; leaving none; event Normal AddressAllocated',
    ],
    'and not with the same ones': [
      {
        services: [makeService('apps/a', { metadata: { annotations: shared }, spec: dns }), other],
        virtualIps: sharedIps,
      },
      exhausted,
    ],
    'takes neither family when it lacks one': [{ services: [makeService('apps/a', { spec: dual })] }, noPool],
    'takes the one that is to be had when it prefers both': [
      { services: [makeService('apps/a', { spec: { ...dual, ipFamilyPolicy: 'PreferDualStack' } })] },
      created,
    ],
    'keeps its address when the pool no longer has it, and says so': [
      {
        ...{ services: published, virtualIps: own, reports },
        pools: [makePool('pool', { addresses: ['10.0.9.20'] })],
      },
      `${stays}; True OutsidePool; event Warning NotAsAsked`,
    ],
    'says on which of its nodes it is left to kube-proxy, and why; of no other node': [
      { services: published, virtualIps: own, pools: two, reports: amiss('left') },
      `${stays}; True LeftToKubeProxy; event Warning NotAsAsked`,
      'kube-proxy serves it on nodes. node-1: nft does not take 10.244.1.2."',
    ],
    'says on which of its nodes clients are dropped, and why; of no other node': [
      { services: published, virtualIps: own, pools: two, reports: amiss('dropping') },
      `${stays}; True ClientsDropped; event Warning NotAsAsked`,
      'Nodes drop clients. node-1: nft does not take 10.244.1.2."',
    ],
    'takes another address when another host answers for the first': [
      {
        ...{ services, pools: two },
        virtualIps: [
          makeVirtualIp('10.0.9.10', ['apps/a'], {
            status: { conditions: [{ type: 'AddressInUse', status: 'True' }] },
          }),
        ],
      },
      created.replace('0.10', '0.11').replace('9.10', '9.11'),
    ],
    'gets no external IP of another Service': [{ services: [makeService('apps/a'), external] }, exhausted],
    'gets no address that no pool has when it asks for it, and is told so': [
      { services: [asking('10.0.8.10')] },
      exhausted.replace('PoolExhausted', 'AddressOutsidePools'),
      'No AddressPool has 10.0.8.10 and gives addresses to this Service.',
    ],
    'gets none of those either when it asks for it': [{ services: [asking('10.0.9.10'), external] }, taken],
    'gets one that it names as its own external IP': [
      { services: [makeService('apps/a', { spec: { externalIPs: ['10.0.9.10'] } })] },
      created,
    ],
    'gets no address that a Service of another load balancer publishes': [
      {
        services: [
          makeService('apps/a'),
          makeService('apps/b', { spec: { loadBalancerClass: 'other.io/lb' }, status: publish('10.0.9.10') }),
        ],
      },
      exhausted,
    ],
    'says that no node lives that could serve its address, and keeps it': [
      { services: published, virtualIps: own },
      `${stays}; False NoLivingNode; event Warning NoAddress`,
    ],
    'that does not get what it asks for now says so by an event': [
      { services: [asking('192.0.2.1', { status: publish('10.0.9.10') })], virtualIps: own, reports },
      `${stays}; True AddressOutsidePools; event Warning NotAsAsked`,
    ],
    'gets nothing of a pool that selects namespaces before its own is known': [selecting, noPool],
    'and gets it once that is known': [{ ...selecting, namespaces: [makeNamespace('apps', {})] }, created],
  });

  test('waits for nodes, and says so after five seconds', () => {
    const virtualIps = [makeVirtualIp('10.0.9.10', ['apps/a'], { status: {} })];
    const look = (sinceMs: number, version: number | null) => {
      const store = makeCache({
        ...{ pools: [makePool('pool', { addresses: ['10.0.9.10'] })], nodes: [makeNode('node-1')] },
        ...{ services, virtualIps, reports: version === null ? [] : [makeReport('node-1', version)] },
      });
      store.view(nowMs - sinceMs);
      return nextStep(toServiceKey('apps/a'), store.view(nowMs));
    };
    expect(tell(look(4000, 19))).toBe('wait nodes 1000');
    expect(JSON.stringify(look(5000, 19))).toContain('nodes have not programmed it yet: node-1.');
    expect(tell(look(5000, null))).toContain('False NoLivingNode');
    // Nobody is behind: the controller's own write is missing, however long it takes.
    expect(tell(look(60_000, 20))).toBe('wait nodes 5000');
  });

  test('says that the pool is exhausted, and waits for an address', () => {
    const virtualIps = [makeVirtualIp('10.0.9.10', ['apps/b'])];
    const look = (status: Readonly<Record<string, unknown>>) =>
      decide({ services: [makeService('apps/a', { status }), makeService('apps/b')], virtualIps });
    expect(tell(look({}))).toBe(exhausted);
    const { conditions } = (getWrite(look({})).body as { status: { conditions: unknown[] } }).status;
    expect(tell(look({ conditions }))).toBe('wait addresses');
  });
});

const put = <T>(after: T | null, before: T | null, key: string) => ({ key, before, after });

const pool = makePool('pool', { addresses: ['10.0.0.0/16'] });

describe('twice of what one writes is at most twice the work', () => {
  const ips = (length: number) => Array.from({ length }, (_, at) => `10.${at >> 8}.${at & 255}.1`);
  const grow = (run: (length: number) => void) => {
    const [one = 0, two = 0] = [400, 800].map((length) =>
      countSteps(() => {
        run(length);
      }),
    );
    return two / one;
  };

  test('external IPs of a Service: when it comes, when others take their place, and when another field changes', () => {
    const make = (length: number, version: string, shift = 0) =>
      makeService('apps/a', {
        metadata: { resourceVersion: version },
        spec: { externalIPs: ips(length + shift).slice(shift) },
      });
    const run = (length: number) => {
      const [first, second, third] = [make(length, '1'), make(length, '2'), make(length, '3', length)];
      const cache = makeCache({ pools: [pool] });
      for (const [before, after] of [
        [null, first],
        [first, second],
        [second, third],
      ] as const)
        cache.take('services', put(after, before, 'apps/a'));
    };
    expect(grow(run)).toBeLessThan(2.1);
  });

  test('addresses that a node finds in use', () => {
    const run = (length: number) => {
      const cache = makeCache({ pools: [pool] });
      cache.takeReport('x', makeReport('x', 1, { inUse: ips(length) }));
      cache.takeReport('x', makeReport('x', 1, { inUse: ips(2 * length).slice(length) }));
    };
    expect(grow(run)).toBeLessThan(2.1);
  });
});

test('a look at a pool costs nothing for the addresses that Services name, as long as these stay', () => {
  const of = { kind: 'AddressPool', key: 'pool' } as const;
  const naming = Array.from({ length: 100 }, (_, at) =>
    makeService(`apps/a${at}`, { spec: { externalIPs: [`10.0.9.${at}`] } }),
  );
  const seats = [0, 1, 2, 3].map((index) => makeSeat(index, '10.0.9.0', ['node-1']));
  const count = (some: typeof naming) => {
    const cache = makeCache({
      pools: [makePool('pool', { addresses: ['10.0.9.0/24'] }, { status: { seats } })],
      services: some,
      nodes: [makeNode('node-1')],
    });
    nextStep(of, cache.view(nowMs));
    return countSteps(() => nextStep(of, cache.view(nowMs)));
  };
  expect(count(naming)).toBeLessThan(count(naming.slice(0, 4)) + 10);
});
