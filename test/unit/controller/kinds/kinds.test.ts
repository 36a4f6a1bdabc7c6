import { describe, test, expect } from '@jest/globals';
import {
  makeService,
  toUser,
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
import { getWrite, decide, nextStep } from '../../../support/fakes/service-steps.ts';
import { finalizer } from '../../../../lib/api/vipnat.ts';
import { countSteps } from '../../../support/fakes/count-steps.ts';
import { makeSeat } from '../../../support/fakes/seat-objects.ts';

describe('a Service that is to have an address', () => {
  test('gets the finalizer first, beside those of others', () => {
    const service = makeService('apps/a', { metadata: { finalizers: ['other.io/it'] } });
    expect(getWrite(decide({ services: [service] }))).toMatchObject({
      method: 'PATCH',
      path: '/api/v1/namespaces/apps/services/a',
      body: { metadata: { resourceVersion: '10', finalizers: ['other.io/it', finalizer] } },
    });
  });

  test('then a VirtualIP, whose name is the lock', () => {
    const write = getWrite(decide({ services: [makeService('apps/a')] }));
    expect(write).toMatchObject({
      method: 'POST',
      path: '/apis/vipnat.io/v1alpha1/virtualips',
      key: '10.0.9.10',
      body: {
        metadata: { name: '10.0.9.10', finalizers: [finalizer] },
        spec: { pool: 'pool', services: [toUser('apps/a')] },
      },
    });
  });

  test('waits for nodes, and says so after five seconds', () => {
    const virtualIps = [makeVirtualIp('10.0.9.10', ['apps/a'], { status: {} })];
    const services = [makeService('apps/a')];
    const reports = [makeReport('node-1', 19)];
    const look = (sinceMs: number, inventory: object) => {
      const pools = [makePool('pool', { addresses: ['10.0.9.10'] })];
      const store = makeCache({
        ...{ pools, nodes: [makeNode('node-1')], services, virtualIps },
        ...inventory,
      });
      store.view(nowMs - sinceMs);
      return nextStep(toServiceKey('apps/a'), store.view(nowMs));
    };
    expect(look(4000, { reports })).toMatchObject({ does: 'wait', waitsFor: 'nodes', untilMs: nowMs + 1000 });
    const write = getWrite(look(5000, { reports }));
    expect(JSON.stringify(write.body)).toContain('nodes have not programmed it yet: node-1.');
    expect(JSON.stringify(getWrite(look(5000, {})).body)).toContain('NoLivingNode');
    // Nobody is behind: the controller's own write is missing, however long it takes.
    expect(look(60_000, { reports: [makeReport('node-1', 20)] })).toMatchObject({ does: 'wait' });
  });

  test('is published with its VirtualIP confirmed', () => {
    const virtualIps = [makeVirtualIp('10.0.9.10', ['apps/a'])];
    const write = getWrite(
      decide({ services: [makeService('apps/a')], virtualIps, reports: [makeReport('node-1', 20)] }),
    );
    expect(write.path).toBe('/api/v1/namespaces/apps/services/a/status');
    expect(write.confirm).toEqual([{ path: '/apis/vipnat.io/v1alpha1/virtualips/10.0.9.10', version: '20' }]);
    expect(write.body).toMatchObject({
      status: {
        loadBalancer: { ingress: [{ ip: '10.0.9.10', ipMode: 'VIP' }] },
        conditions: [{ status: 'True', reason: 'Ready' }],
      },
    });
  });

  test('says that the pool is exhausted, and waits for an address', () => {
    const virtualIps = [makeVirtualIp('10.0.9.10', ['apps/b'])];
    const services = [makeService('apps/a'), makeService('apps/b')];
    const write = getWrite(decide({ services, virtualIps }));
    expect(write.body).toMatchObject({
      status: { conditions: [{ status: 'False', reason: 'PoolExhausted' }] },
    });
    const { conditions } = (write.body as { status: { conditions: unknown[] } }).status;
    const told = makeService('apps/a', { status: { conditions } });
    expect(decide({ services: [told, makeService('apps/b')], virtualIps })).toMatchObject({
      does: 'wait',
      waitsFor: 'addresses',
    });
  });

  test('shares an address under the same key with other ports, and not with the same ones', () => {
    const annotations = { 'vipnat.io/share': 'k' };
    const other = makeService('apps/b', {
      metadata: { annotations },
      spec: { ports: [{ port: 53, protocol: 'UDP' }] },
    });
    const virtualIps = [makeVirtualIp('10.0.9.10', ['apps/b'], { spec: { shareKey: 'k' } })];
    const join = getWrite(
      decide({ services: [makeService('apps/a', { metadata: { annotations } }), other], virtualIps }),
    );
    expect(join).toMatchObject({
      method: 'PATCH',
      body: { metadata: { resourceVersion: '20' }, spec: { services: [toUser('apps/b'), toUser('apps/a')] } },
    });
    const clash = makeService('apps/a', {
      metadata: { annotations },
      spec: { ports: [{ port: 53, protocol: 'UDP' }] },
    });
    expect(JSON.stringify(getWrite(decide({ services: [clash, other], virtualIps })).body)).toContain(
      'PoolExhausted',
    );
  });

  test('takes neither family when it requires both and one is not to be had', () => {
    const spec = { ipFamilies: ['IPv4', 'IPv6'], ipFamilyPolicy: 'RequireDualStack' };
    const write = getWrite(decide({ services: [makeService('apps/a', { spec })] }));
    expect(write.body).toMatchObject({ status: { conditions: [{ status: 'False', reason: 'NoPool' }] } });
    const preferring = makeService('apps/a', { spec: { ...spec, ipFamilyPolicy: 'PreferDualStack' } });
    expect(getWrite(decide({ services: [preferring] }))).toMatchObject({ method: 'POST', key: '10.0.9.10' });
  });

  test('keeps its address when the pool no longer has it, and says so', () => {
    const service = makeService('apps/a', { status: publish('10.0.9.10') });
    const write = getWrite(
      decide({
        services: [service],
        virtualIps: [makeVirtualIp('10.0.9.10', ['apps/a'])],
        pools: [makePool('pool', { addresses: ['10.0.9.20'] })],
        reports: [makeReport('node-1', 20)],
      }),
    );
    expect(write.body).toMatchObject({
      status: {
        loadBalancer: { ingress: [{ ip: '10.0.9.10' }] },
        conditions: [{ status: 'True', reason: 'OutsidePool' }],
      },
    });
  });

  test.each([
    ['left', 'LeftToKubeProxy', 'kube-proxy serves it on nodes'],
    ['dropping', 'ClientsDropped', 'Nodes drop clients'],
  ])(
    'says on which of its nodes something is amiss (%s), and why; of no other node',
    (what, reason, detail) => {
      const services = [makeService('apps/a', { status: publish('10.0.9.10') })];
      const [virtualIps, pools] = [
        [makeVirtualIp('10.0.9.10', ['apps/a'])],
        [makePool('pool', { addresses: ['10.0.9.10-10.0.9.11'] })],
      ];
      const said = { [what]: { 'apps/a': 'nft does not take 10.244.1.2' } };
      const reports = [makeReport('node-1', 20, said), makeReport('elsewhere', 20, said)];
      expect(getWrite(decide({ services, virtualIps, pools, reports })).body).toMatchObject({
        status: {
          conditions: [
            {
              status: 'True',
              reason,
              message: `${detail}. node-1: nft does not take 10.244.1.2.`,
            },
          ],
        },
      });
    },
  );

  test('takes another address when another host answers for the first', () => {
    const inUse = { conditions: [{ type: 'AddressInUse', status: 'True' }] };
    const virtualIps = [makeVirtualIp('10.0.9.10', ['apps/a'], { status: inUse })];
    const pools = [makePool('pool', { addresses: ['10.0.9.10-10.0.9.11'] })];
    expect(getWrite(decide({ services: [makeService('apps/a')], virtualIps, pools }))).toMatchObject({
      method: 'POST',
      key: '10.0.9.11',
    });
  });

  test('gets no address that another Service names as its external IP, whoever asks for it', () => {
    const other = makeService('infra/x', { spec: { type: 'ClusterIP', externalIPs: ['10.0.9.10'] } });
    for (const annotations of [{}, { 'vipnat.io/addresses': '10.0.9.10' }]) {
      const services = [makeService('apps/a', { metadata: { annotations } }), other];
      expect(getWrite(decide({ services })).body).toMatchObject({
        status: { conditions: [{ status: 'False' }] },
      });
    }
    const own = makeService('apps/a', { spec: { externalIPs: ['10.0.9.10'] } });
    expect(getWrite(decide({ services: [own] }))).toMatchObject({ method: 'POST', key: '10.0.9.10' });
  });

  test('gets no address that a Service of another load balancer publishes', () => {
    const other = makeService('apps/b', {
      spec: { loadBalancerClass: 'other.io/lb' },
      status: publish('10.0.9.10'),
    });
    expect(JSON.stringify(getWrite(decide({ services: [makeService('apps/a'), other] })).body)).toContain(
      'PoolExhausted',
    );
  });

  test('says that no node lives that could serve its address, and keeps it', () => {
    const service = makeService('apps/a', { status: publish('10.0.9.10') });
    const write = getWrite(
      decide({ services: [service], virtualIps: [makeVirtualIp('10.0.9.10', ['apps/a'])] }),
    );
    expect(write.body).toMatchObject({
      status: {
        loadBalancer: { ingress: [{ ip: '10.0.9.10' }] },
        conditions: [{ status: 'False', reason: 'NoLivingNode' }],
      },
    });
  });

  test('that does not get what it asks for now says so by an event', () => {
    const annotations = { 'vipnat.io/addresses': '192.0.2.1' };
    const service = makeService('apps/a', { metadata: { annotations }, status: publish('10.0.9.10') });
    const virtualIps = [makeVirtualIp('10.0.9.10', ['apps/a'])];
    const step = decide({ services: [service], virtualIps, reports: [makeReport('node-1', 20)] });
    expect(step).toMatchObject({ event: { type: 'Warning', reason: 'NotAsAsked' } });
  });

  test('gets nothing of a pool that selects namespaces before its own is known', () => {
    const namespaceSelector = { matchExpressions: [{ key: 'tenant', operator: 'DoesNotExist' }] };
    const pools = [makePool('pool', { addresses: ['10.0.9.10'], namespaceSelector })];
    const services = [makeService('apps/a', { metadata: { annotations: { 'vipnat.io/pool': '' } } })];
    expect(JSON.stringify(getWrite(decide({ services, pools })).body)).toContain('NoPool');
    const namespaces = [makeNamespace('apps', {})];
    expect(getWrite(decide({ services, pools, namespaces }))).toMatchObject({ key: '10.0.9.10' });
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
  const services = Array.from({ length: 100 }, (_, at) =>
    makeService(`apps/a${at}`, { spec: { externalIPs: [`10.0.9.${at}`] } }),
  );
  const seats = [0, 1, 2, 3].map((index) => makeSeat(index, '10.0.9.0', ['node-1']));
  const count = (some: typeof services) => {
    const cache = makeCache({
      pools: [makePool('pool', { addresses: ['10.0.9.0/24'] }, { status: { seats } })],
      services: some,
      nodes: [makeNode('node-1')],
    });
    nextStep(of, cache.view(nowMs));
    return countSteps(() => nextStep(of, cache.view(nowMs)));
  };
  expect(count(services)).toBeLessThan(count(services.slice(0, 4)) + 10);
});
