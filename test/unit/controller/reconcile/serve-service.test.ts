import { describe, expect, test } from '@jest/globals';
import { finalizer } from '../../../../lib/services/names.ts';
import {
  makePool,
  makeReport,
  makeService,
  makeVirtualIp,
  nowMs,
  publish,
  toUser,
} from '../../../support/fakes/service-objects.ts';
import { decide, getWrite } from '../../../support/fakes/service-steps.ts';

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
      body: { metadata: { name: '10.0.9.10' }, spec: { pool: 'pool', services: [toUser('apps/a')] } },
    });
  });

  test('waits for nodes, and says so after five seconds', () => {
    const fresh = makeVirtualIp('10.0.9.10', ['apps/a'], {
      metadata: { creationTimestamp: new Date(nowMs - 4000).toISOString() },
      status: {},
    });
    const services = [makeService('apps/a')];
    const reports = [makeReport('node-1', 19)];
    expect(decide({ services, virtualIps: [fresh], reports })).toMatchObject({
      does: 'wait',
      waitsFor: 'nodes',
      untilMs: nowMs + 1000,
    });
    const old = {
      ...fresh,
      metadata: { ...fresh.metadata, creationTimestamp: new Date(nowMs - 5000).toISOString() },
    };
    const write = getWrite(decide({ services, virtualIps: [old], reports }));
    expect(JSON.stringify(write.body)).toContain('nodes have not programmed it yet: node-1.');
    expect(JSON.stringify(getWrite(decide({ services, virtualIps: [old] })).body)).toContain('NoLivingNode');
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
      }),
    );
    expect(write.body).toMatchObject({
      status: {
        loadBalancer: { ingress: [{ ip: '10.0.9.10' }] },
        conditions: [{ status: 'True', reason: 'OutsidePool' }],
      },
    });
  });

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

  describe('loses an address for which another host answers', () => {
    const since = (ms: number) => new Date(nowMs - ms).toISOString();
    const virtualIp = (status: 'True' | 'False', ms = 60_000) =>
      makeVirtualIp('10.0.9.10', ['apps/a'], {
        status: {
          conditions: [
            { type: 'Programmed', status: 'True', observedGeneration: 1 },
            { type: 'AddressInUse', status, lastTransitionTime: since(ms) },
          ],
        },
      });
    const pools = [makePool('pool', { addresses: ['10.0.9.10-10.0.9.11'] })];
    const reports = [makeReport('node-1', 20)];
    const withdraw = () =>
      decide({
        services: [makeService('apps/a', { status: publish('10.0.9.10') })],
        virtualIps: [virtualIp('True')],
        pools,
        reports,
      });
    const withdrawn = () => {
      const { conditions } = (getWrite(withdraw()).body as { status: { conditions: object[] } }).status;
      return makeService('apps/a', { status: { conditions } });
    };

    test('from its status, with a condition and an event', () => {
      expect(getWrite(withdraw()).body).toMatchObject({
        status: {
          loadBalancer: { ingress: null },
          conditions: [{ status: 'False', reason: 'AddressWithdrawn' }],
        },
      });
      expect(withdraw()).toMatchObject({ event: { type: 'Warning', reason: 'AddressInUse' } });
    });

    test('and keeps the VirtualIP: no other address is taken, although one is free', () => {
      expect(
        decide({ services: [withdrawn()], virtualIps: [virtualIp('True')], pools, reports }),
      ).toMatchObject({
        does: 'wait',
        waitsFor: 'nodes',
      });
    });

    test('until it has been free for fifteen seconds', () => {
      const look = (ms: number) =>
        decide({ services: [withdrawn()], virtualIps: [virtualIp('False', ms)], pools, reports });
      expect(JSON.stringify(getWrite(look(14_000)).body)).toContain('a moment ago');
      expect(getWrite(look(14_000)).body).toMatchObject({ status: { loadBalancer: { ingress: null } } });
      expect(getWrite(look(15_000)).body).toMatchObject({
        status: {
          loadBalancer: { ingress: [{ ip: '10.0.9.10' }] },
          conditions: [{ status: 'True', reason: 'Ready' }],
        },
      });
      // A date that was ahead says nothing.
      expect(getWrite(look(-3_600_000)).body).toMatchObject({ status: { loadBalancer: { ingress: [{}] } } });
    });

    test('but goes to the address that its owner asks for instead', () => {
      const { status } = withdrawn();
      const asking = makeService('apps/a', {
        metadata: { annotations: { 'vipnat.io/addresses': '10.0.9.11' } },
        ...(status === undefined || status === null ? {} : { status }),
      });
      expect(decide({ services: [asking], virtualIps: [virtualIp('True')], pools, reports })).toMatchObject({
        write: { method: 'POST', key: '10.0.9.11' },
      });
    });
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
});
