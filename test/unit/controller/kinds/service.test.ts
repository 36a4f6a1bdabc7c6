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
import { getWrite, decide, nextStep, tell, testDecisions } from '../../../support/fakes/service-steps.ts';
import { addressReady, finalizer } from '../../../../lib/api/vipnat.ts';
import { makeSeat } from '../../../support/fakes/seat-objects.ts';

describe('a Service that is to have none', () => {
  const deleted = { metadata: { deletionTimestamp: '2027-01-15T08:00:00Z' }, status: publish('10.0.9.10') };
  const leaving = makeVirtualIp('10.0.9.10', [], {
    metadata: { generation: 2 },
    spec: { leaving: [toUser('apps/a')] },
  });

  const services = [makeService('apps/a', deleted)];
  const reports = [makeReport('node-1', 20)];
  const foreign = { loadBalancerClass: 'other.io/lb' };
  const shared = { loadBalancer: { ingress: [{ ip: '10.0.9.10' }, { ip: '192.0.2.7', ipMode: 'VIP' }] } };
  const unheld = { metadata: { finalizers: [] }, spec: foreign, status: publish('10.0.9.10') };
  const known = { ...deleted.status, conditions: [{ type: addressReady, status: 'True' }] };

  testDecisions({
    'leaves its address': [
      { services, virtualIps: [makeVirtualIp('10.0.9.10', ['apps/a'])] },
      'PATCH VirtualIP 10.0.9.10; services none; leaving apps/a',
    ],
    'waits until every living node has forgotten it': [
      { services, virtualIps: [leaving], reports: [makeReport('node-1', 19)] },
      'wait nodes 60000',
    ],
    'loses it then': [{ services, virtualIps: [leaving], reports }, 'PATCH Service apps/a; ingress none'],
    'and last the finalizer': [
      { services: [makeService('apps/a', { metadata: deleted.metadata })], virtualIps: [leaving], reports },
      'PATCH Service apps/a; finalizers none; event Normal AddressReleased',
    ],
    'gives its address back also when somebody deleted the VirtualIP before': [
      { services: [makeService('apps/a', { ...deleted, status: known })], unresponsive: ['node-1'] },
      `POST VirtualIP 10.0.9.10; finalizers ${finalizer}; services none; leaving apps/a`,
      '"absent":[]',
    ],
    'keeps what another load balancer wrote': [
      {
        services: [makeService('apps/a', { spec: foreign, status: shared })],
        virtualIps: [leaving],
        reports,
      },
      'PATCH Service apps/a; ingress 192.0.2.7 VIP',
    ],
    'is not touched when nothing of it is ours': [{ services: [makeService('apps/a', unheld)] }, 'nothing'],
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
    expect(tell(look(59))).toBe('wait nodes 1000');
    expect(tell(look(60))).toBe('PATCH Service apps/a; False WaitingForNodes');
    const { status } = getWrite(look(60)).body as { status: { conditions: readonly object[] } };
    expect(JSON.stringify(status)).toContain('10.0.9.10: nodes have not withdrawn it yet: worker-7.');
    expect(tell(look(61, status.conditions))).toBe('wait nodes 60000');
  });
});

const address = '10.0.9.10';
const ports = [
  { port: 80, name: 'web' },
  { port: 9999, protocol: 'SCTP', name: 'sigtran' },
];
const ready = {
  ...{ type: 'vipnat.io/AddressReady', status: 'True', reason: 'Ready' },
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
  const reports = [makeReport('node-1', 20, { unsupported })];
  return decide({ services: [service], virtualIps, pools, reports });
}

describe('ports of a Service that has its address', () => {
  test.each([null, 'random', 'rr', 'hash', 'lc'])('have no entry where all is served: %s', (method) => {
    expect(decideFor(method, [])).toEqual({ does: 'nothing' });
  });

  const list = (...errors: (string | null)[]) =>
    ports.map(({ port, protocol = 'TCP' }, at) => {
      const error = errors[at] ?? null;
      return error === null ? { port, protocol } : { port, protocol, error };
    });
  const noSctp = list(null, 'vipnat.io/ProtocolNotSupported');
  const noMethod = list('vipnat.io/MethodNotSupported', 'vipnat.io/MethodNotSupported');

  const untranslated = 'The kernel of node-1 cannot translate SCTP.';
  const unknownMethod = 'vipnat does not have the method wrr: pods are chosen at random.';

  test.each<[string, string | null, string[], object[] | undefined, object[] | undefined, string | null]>([
    ['have their errors beside the address, and an event', null, ['SCTP'], undefined, noSctp, untranslated],
    ['each have the error of an unknown method', 'wrr', [], undefined, noMethod, unknownMethod],
    ['get what lacks, and no second event', 'wrr', [], noMethod.slice(0, 1), noMethod, null],
    ['lose their entries when the owner asks for what there is', 'rr', [], noMethod, undefined, null],
  ])('%s', (...[, method, unsupported, known, written, message]) => {
    const step = decideFor(method, unsupported, known);
    const ingress = [{ ip: address, ipMode: 'VIP', ...(written === undefined ? {} : { ports: written }) }];
    expect(getWrite(step).body).toEqual({
      ...{ metadata: { resourceVersion: '10' }, status: { loadBalancer: { ingress } } },
    });
    const event = message === null ? null : { type: 'Warning', reason: 'PortNotSupported', message };
    expect(step).toMatchObject({ event });
  });

  test('are not written again once the status has their errors', () => {
    expect(decideFor('wrr', [], noMethod)).toEqual({ does: 'nothing' });
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
