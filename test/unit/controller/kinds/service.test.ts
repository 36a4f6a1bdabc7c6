import { describe, test, expect } from '@jest/globals';
import {
  publish,
  makeVirtualIp,
  toUser,
  makeService,
  makeReport,
  makeCache,
  makePool,
  nowMs,
  toServiceKey,
} from '../../../support/fakes/service-objects.ts';
import { getWrite, decide, nextStep } from '../../../support/fakes/service-steps.ts';
import { addressReady } from '../../../../lib/api/vipnat.ts';
import { makeSeat } from '../../../support/fakes/seat-objects.ts';

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
    expect(getWrite(decide({ services: [service], unresponsive: ['node-1'] }))).toMatchObject({
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

const address = '10.0.9.10';
const ports = [
  { port: 80, name: 'web' },
  { port: 9999, protocol: 'SCTP', name: 'sigtran' },
];
const ready = {
  type: 'vipnat.io/AddressReady',
  status: 'True',
  reason: 'Ready',
  message: '10.0.9.10: all nodes of the pool serve it.',
};
const seats = [makeSeat(0, address, ['node-1'])];
const pools = [makePool('pool', { addresses: [address] }, { status: { seats } })];

/** The next step of a Service that has its address, with a node whose kernel lacks protocols. */
function decideFor(method: string | null, unsupported: readonly string[], known?: readonly object[]) {
  const [ingress] = (publish(address)['loadBalancer'] as { ingress: object[] }).ingress;
  const service = makeService('apps/a', {
    metadata: { annotations: method === null ? {} : { 'vipnat.io/method': method } },
    spec: { ports },
    status: {
      loadBalancer: { ingress: [{ ...ingress, ...(known === undefined ? {} : { ports: known }) }] },
      conditions: [ready],
    },
  });
  const virtualIps = [makeVirtualIp(address, ['apps/a'])];
  return decide({
    services: [service],
    virtualIps,
    pools,
    reports: [makeReport('node-1', 20, { unsupported })],
  });
}

describe('ports of a Service that has its address', () => {
  test.each([null, 'random', 'rr', 'hash', 'lc'])(
    'have no entry where all is served: method %s',
    (method) => {
      expect(decideFor(method, [])).toEqual({ does: 'nothing' });
    },
  );

  test('have their errors beside the address, and an event, where a kernel lacks SCTP', () => {
    const step = decideFor(null, ['SCTP']);
    expect(getWrite(step).body).toEqual({
      metadata: { resourceVersion: '10' },
      status: {
        loadBalancer: {
          ingress: [
            {
              ip: address,
              ipMode: 'VIP',
              ports: [
                { port: 80, protocol: 'TCP' },
                { port: 9999, protocol: 'SCTP', error: 'vipnat.io/ProtocolNotSupported' },
              ],
            },
          ],
        },
      },
    });
    expect(step).toMatchObject({
      event: {
        type: 'Warning',
        reason: 'PortNotSupported',
        message: 'The kernel of node-1 cannot translate SCTP.',
      },
    });
  });

  test('each have the error of an unknown method, and no second event once the status has it', () => {
    const step = decideFor('wrr', []);
    const error = 'vipnat.io/MethodNotSupported';
    const written = [
      { port: 80, protocol: 'TCP', error },
      { port: 9999, protocol: 'SCTP', error },
    ];
    expect(getWrite(step).body).toMatchObject({
      status: { loadBalancer: { ingress: [{ ports: written }] } },
    });
    expect(step).toMatchObject({
      event: {
        reason: 'PortNotSupported',
        message: 'vipnat does not have the method wrr: pods are chosen at random.',
      },
    });
    expect(decideFor('wrr', [], written)).toEqual({ does: 'nothing' });
    expect(decideFor('wrr', [], written.slice(0, 1))).toMatchObject({ does: 'write', event: null });
  });

  test('lose their entries when the owner asks for what there is', () => {
    const written = [{ port: 80, protocol: 'TCP', error: 'vipnat.io/MethodNotSupported' }];
    const step = decideFor('rr', [], written);
    expect(getWrite(step).body).toMatchObject({
      status: { loadBalancer: { ingress: [{ ip: address, ipMode: 'VIP' }] } },
    });
    expect(JSON.stringify(getWrite(step).body)).not.toContain('ports');
    expect(step).toMatchObject({ event: null });
  });
});

test('Services with such a port are looked at again when a node says otherwise, and no others', () => {
  const services = [makeService('apps/a', { spec: { ports } }), makeService('apps/b')];
  const store = makeCache({ services, reports: [makeReport('node-1', 20)] });
  const look = (unsupported: readonly string[]) =>
    store.takeReport('node-1', makeReport('node-1', 20, { unsupported })).keys;
  expect(look(['SCTP'])).toEqual([toServiceKey('apps/a')]);
  expect(look(['SCTP'])).toEqual([]);
  expect(look([])).toEqual([toServiceKey('apps/a')]);
});
