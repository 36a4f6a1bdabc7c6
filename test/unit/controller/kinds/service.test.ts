import { describe, expect, test } from '@jest/globals';
import { nextStep } from '../../../../controller/kinds/kinds.ts';
import { addressReady } from '../../../../lib/services/names.ts';
import {
  makePool,
  makeReport,
  makeService,
  makeCache,
  makeVirtualIp,
  nowMs,
  publish,
  toServiceKey,
  toUser,
} from '../../../support/fakes/service-objects.ts';
import { decide, getWrite } from '../../../support/fakes/service-steps.ts';

describe('a Service that is to have none', () => {
  const deleted = { metadata: { deletionTimestamp: '2027-01-15T08:00:00Z' }, status: publish('10.0.9.10') };
  const leaving = makeVirtualIp('10.0.9.10', [], {
    metadata: { generation: 2 },
    spec: { leaving: [toUser('apps/a')] },
  });

  test('leaves its address, and waits until every living node has forgotten it', () => {
    const services = [makeService('apps/a', deleted)];
    const write = getWrite(decide({ services, virtualIps: [makeVirtualIp('10.0.9.10', ['apps/a'])] }));
    expect(write.body).toMatchObject({ spec: { services: [], leaving: [toUser('apps/a')] } });
    const late = { services, virtualIps: [leaving], reports: [makeReport('node-1', 19)] };
    expect(decide(late)).toMatchObject({ does: 'wait', waitsFor: 'nodes' });
  });

  test('names the nodes that hold it up for a minute, also those that hold no address, and says it once', () => {
    const look = (secondsAgo: number, conditions: readonly object[] = []) => {
      const store = makeCache({
        pools: [makePool('pool', { addresses: ['10.0.9.10'] })],
        services: [makeService('apps/a', { ...deleted, status: { ...deleted.status, conditions } })],
        virtualIps: [leaving],
        reports: [makeReport('node-1', 20), makeReport('worker-7', 19)],
      });
      store.view(nowMs - secondsAgo * 1000);
      return nextStep(toServiceKey('apps/a'), store.view(nowMs));
    };
    expect(look(59)).toMatchObject({ does: 'wait', untilMs: nowMs + 1000 });
    const { status } = getWrite(look(60)).body as { status: { conditions: readonly object[] } };
    expect(status).toEqual({
      conditions: [expect.objectContaining({ status: 'False', reason: 'WaitingForNodes' })],
    });
    expect(JSON.stringify(status)).toContain('10.0.9.10: nodes have not withdrawn it yet: worker-7.');
    expect(look(61, status.conditions)).toMatchObject({ does: 'wait', untilMs: null });
  });

  test('then loses its status, and last the finalizer', () => {
    const reports = [makeReport('node-1', 20)];
    const cleared = getWrite(
      decide({ services: [makeService('apps/a', deleted)], virtualIps: [leaving], reports }),
    );
    expect(cleared).toMatchObject({
      path: '/api/v1/namespaces/apps/services/a/status',
      body: { status: { loadBalancer: { ingress: null } } },
    });
    const services = [makeService('apps/a', { metadata: deleted.metadata })];
    expect(getWrite(decide({ services, virtualIps: [leaving], reports })).body).toMatchObject({
      metadata: { finalizers: [] },
    });
  });

  test('gives its address back also when somebody deleted the VirtualIP before', () => {
    const conditions = [{ type: addressReady, status: 'True' }];
    const service = makeService('apps/a', { ...deleted, status: { ...deleted.status, conditions } });
    expect(getWrite(decide({ services: [service], silent: ['node-1'] }))).toMatchObject({
      method: 'POST',
      body: { spec: { pool: 'pool', services: [], leaving: [toUser('apps/a')], absent: [] } },
    });
  });

  test('keeps what another load balancer wrote', () => {
    const service = makeService('apps/a', {
      spec: { loadBalancerClass: 'other.io/lb' },
      status: { loadBalancer: { ingress: [{ ip: '10.0.9.10' }, { ip: '192.0.2.7' }] } },
    });
    const write = getWrite(
      decide({ services: [service], virtualIps: [leaving], reports: [makeReport('node-1', 20)] }),
    );
    expect(write.body).toMatchObject({ status: { loadBalancer: { ingress: [{ ip: '192.0.2.7' }] } } });
  });

  test('is not touched when nothing of it is ours', () => {
    const spec = { loadBalancerClass: 'other.io/lb' };
    const service = makeService('apps/a', {
      metadata: { finalizers: [] },
      spec,
      status: publish('10.0.9.10'),
    });
    expect(decide({ services: [service] })).toEqual({ does: 'nothing' });
  });
});
