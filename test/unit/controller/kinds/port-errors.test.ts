import { describe, expect, test } from '@jest/globals';
import {
  makePool,
  makeReport,
  makeService,
  makeCache,
  makeVirtualIp,
  publish,
  toServiceKey,
} from '../../../support/fakes/service-objects.ts';
import { decide, getWrite } from '../../../support/fakes/service-steps.ts';
import { makeSeat } from '../../../support/fakes/seat-objects.ts';

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
