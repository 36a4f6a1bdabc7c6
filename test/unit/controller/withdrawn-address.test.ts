import { describe, test, expect } from '@jest/globals';
import {
  nowMs,
  makeVirtualIp,
  makePool,
  makeReport,
  makeService,
  publish,
} from '../../support/fakes/service-objects.ts';
import { decide, getWrite } from '../../support/fakes/service-steps.ts';

describe('a Service loses an address for which another host answers', () => {
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
