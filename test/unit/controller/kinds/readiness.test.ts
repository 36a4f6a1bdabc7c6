import { describe, test, expect } from '@jest/globals';
import {
  makeVirtualIp,
  makeNode,
  makePool,
  makeService,
  makeReport,
  publish,
  makeCache,
  nowMs,
  toServiceKey,
} from '../../../support/fakes/service-objects.ts';
import { makeSeat } from '../../../support/fakes/seat-objects.ts';
import type { NodeReport } from '../../../../lib/api/node.ts';
import { getWrite, decide, nextStep } from '../../../support/fakes/service-steps.ts';

describe('an address that nodes cannot hold', () => {
  const why = '10.0.9.10 is in no subnet of this host (it has eth0)';
  const virtualIps = [makeVirtualIp('10.0.9.10', ['apps/a'])];
  const nodes = [makeNode('node-1'), makeNode('node-2')];
  const makeSeated = (...names: string[]) => {
    const seats = [makeSeat(0, '10.0.9.10', names)];
    return [makePool('pool', { addresses: ['10.0.9.10'] }, { status: { seats } })];
  };
  const look = (reports: NodeReport[], status = {}, pools = makeSeated('node-1', 'node-2')) =>
    getWrite(decide({ services: [makeService('apps/a', { status })], virtualIps, nodes, pools, reports }));
  const able = makeReport('node-2', 20);

  test.each(['pool/0', '10.0.9.10'])('is not published, by what nodes say of %s', (name) => {
    const unable = ['node-2', 'node-1'].map((node) => makeReport(node, 20, { unheld: { [name]: why } }));
    expect(look(unable).body).toMatchObject({
      status: {
        loadBalancer: { ingress: null },
        conditions: [
          {
            ...{ status: 'False', reason: 'CannotBeHeld' },
            message: `No node can hold 10.0.9.10. node-1: ${why}, node-2: ${why}.`,
          },
        ],
      },
    });
  });

  test('is published where one of them can, or what they cannot hold is another', () => {
    const unheld = { 'pool/0': why };
    const published = { status: { loadBalancer: { ingress: [{ ip: '10.0.9.10' }] } } };
    expect(look([makeReport('node-1', 20, { unheld }), able]).body).toMatchObject(published);
    const others = { 'pool/1': why, '10.0.9.11': why };
    expect(look([makeReport('node-1', 20, { unheld: others })]).body).toMatchObject(published);
  });

  test('is not published where the one that could may not hold it', () => {
    const unheld = { 'pool/0': why };
    const body = look([makeReport('node-1', 20, { unheld }), able], {}, makeSeated('node-1')).body;
    expect(body).toMatchObject({ status: { conditions: [{ reason: 'CannotBeHeld' }] } });
  });

  test('and is published stays so, and the condition says it', () => {
    const unheld = { 'pool/0': why };
    const body = look([makeReport('node-1', 20, { unheld })], publish('10.0.9.10')).body;
    expect(body).toMatchObject({
      status: {
        loadBalancer: { ingress: [{ ip: '10.0.9.10' }] },
        conditions: [{ status: 'False', reason: 'CannotBeHeld' }],
      },
    });
  });
});

describe('an address whose VirtualIP names a pool that does not exist', () => {
  const virtualIps = [makeVirtualIp('10.0.9.10', ['apps/a'], { spec: { pool: 'typo' } })];
  const services = (status = {}) => [makeService('apps/a', { status, spec: named })];
  const named = { loadBalancerIP: '10.0.9.10' };
  const look = (status = {}) => {
    const pools = [makePool('pool', { addresses: ['10.0.9.10'] })];
    const nodes = [makeNode('node-1')];
    const reports = [makeReport('node-1', 20)];
    return decide({ services: services(status), virtualIps, pools, nodes, reports });
  };
  const why = 'No node answers for 10.0.9.10: its AddressPool typo does not exist.';
  const conditions = [{ status: 'False', reason: 'PoolGone', message: why }];

  test('stays published, is not ready, and an event says it', () => {
    const step = look(publish('10.0.9.10'));
    const status = { loadBalancer: { ingress: [{ ip: '10.0.9.10' }] }, conditions };
    expect(getWrite(step).body).toMatchObject({ status });
    expect(step).toMatchObject({ event: { type: 'Warning', reason: 'NoAddress', message: why } });
  });

  test('is said to lack its pool where it was asked for and not published yet', () => {
    expect(getWrite(look()).body).toMatchObject({ status: { loadBalancer: { ingress: null }, conditions } });
  });
});

describe('an address that nodes have programmed', () => {
  const pools = [makePool('pool', { addresses: ['10.0.9.10'] })];
  const nodes = [makeNode('node-1'), makeNode('node-2')];
  const other = makeReport('node-2', 30, { seats: [] });
  const older = ({ announced, ...report }: NodeReport) => (announced === undefined ? report : report);
  const written = { status: { loadBalancer: { ingress: [{ ip: '10.0.9.10' }] } } };

  /** What is next so long after it was programmed, in version 20; the status was written in version 21. */
  const look = (afterMs: number, reports: readonly NodeReport[]) => {
    const store = makeCache({ pools, nodes, services: [makeService('apps/a')], reports });
    const [before, after] = [20, 21].map((version) =>
      makeVirtualIp('10.0.9.10', ['apps/a'], { metadata: { resourceVersion: String(version) } }),
    );
    store.take('virtualIps', { key: '10.0.9.10', after: before ?? null });
    store.view(nowMs - afterMs);
    store.take('virtualIps', { key: '10.0.9.10', after: after ?? null });
    return nextStep(toServiceKey('apps/a'), store.view(nowMs));
  };

  test('is published once an interface of the node that holds it has it', () => {
    const waiting = look(1000, [makeReport('node-1', 30, { announced: '19' }), other]);
    expect(waiting).toMatchObject({ does: 'wait', waitsFor: 'nodes', untilMs: nowMs + 4000 });
    expect(getWrite(look(1000, [makeReport('node-1', 30, { announced: '20' }), other])).body).toMatchObject(
      written,
    );
  });

  test.each([
    [
      { announced: '19' },
      'NotAnnounced',
      'node-1 holds the seat pool/0, and no interface there has the address yet',
    ],
    [
      { unheld: { '10.0.9.10': '10.0.9.10 is in no subnet' } },
      'NotAnnounced',
      'node-1 holds the seat pool/0, and cannot hold the address: 10.0.9.10 is in no subnet',
    ],
    [{ seats: [] }, 'NoSeatHolder', 'no living node says that it holds the seat pool/0'],
  ])('is never published where the holder says %j: %s', (said, reason, clause) => {
    const step = look(3_600_000, [makeReport('node-1', 30, said), other]);
    const conditions = [{ status: 'False', reason, message: `10.0.9.10: ${clause}.` }];
    expect(getWrite(step).body).toMatchObject({ status: { loadBalancer: { ingress: null }, conditions } });
    expect(step).toMatchObject({ event: { type: 'Warning', reason: 'NoAddress' } });
  });

  test.each([[['pool/0']], [[]]])(
    'is published after ten seconds where a balancer of an older version does not say what it has: %j',
    (seats) => {
      const reports = [older(makeReport('node-1', 30, { seats })), other];
      expect(look(4000, reports)).toMatchObject({ does: 'wait', untilMs: nowMs + 1000 });
      expect(getWrite(look(9000, reports)).body).toMatchObject({
        status: { loadBalancer: { ingress: null } },
      });
      expect(getWrite(look(10_000, reports)).body).toMatchObject(written);
    },
  );
});

describe('an address that is published, and that nobody holds', () => {
  const virtualIp = (reason: string, ms: number) => {
    const lastTransitionTime = new Date(nowMs - ms).toISOString();
    const programmed = { type: 'Programmed', status: 'True', observedGeneration: 1 };
    const announced = { type: 'Announced', status: 'False', reason, lastTransitionTime };
    return makeVirtualIp('10.0.9.10', ['apps/a'], { status: { conditions: [programmed, announced] } });
  };
  const look = (reason: string, ms: number, seats: string[] = [], status = publish('10.0.9.10')) =>
    decide({
      services: [makeService('apps/a', { status })],
      virtualIps: [virtualIp(reason, ms)],
      reports: [makeReport('node-1', 20, { seats })],
    });
  const lost = {
    ...{ status: 'False', reason: 'NoSeatHolder' },
    message: '10.0.9.10: no living node says that it holds the seat pool/0.',
  };

  test('stays published, and is not ready when that has lasted for ten seconds', () => {
    const step = look('NoSeatHolder', 10_000);
    const status = { loadBalancer: { ingress: [{ ip: '10.0.9.10' }] }, conditions: [lost] };
    expect(getWrite(step).body).toMatchObject({ status });
    expect(step).toMatchObject({
      isLowPriority: true,
      event: { reason: 'NoAddress', message: lost.message },
    });
  });

  test('is looked at again when a seat has had the time to move', () => {
    const known = { ...publish('10.0.9.10'), conditions: [ready] };
    expect(look('NoSeatHolder', 4000, [], known)).toMatchObject({ does: 'wait', untilMs: nowMs + 6000 });
    expect(look('SeveralSeatHolders', 60_000, [], known)).toEqual({ does: 'nothing' });
    // The VirtualIP does not say yet that a node holds it again.
    expect(look('NoSeatHolder', 60_000, ['pool/0'], known)).toEqual({ does: 'nothing' });
  });

  test('is not ready either where the node that holds the seat cannot hold it, and others could', () => {
    const unheld = { '10.0.9.10': '10.0.9.10 is in no subnet' };
    const step = decide({
      services: [makeService('apps/a', { status: publish('10.0.9.10') })],
      virtualIps: [makeVirtualIp('10.0.9.10', ['apps/a'])],
      nodes: [makeNode('node-1'), makeNode('node-2')],
      reports: [makeReport('node-1', 20, { unheld }), makeReport('node-2', 20, { seats: [] })],
    });
    const message =
      '10.0.9.10: node-1 holds the seat pool/0, and cannot hold the address: 10.0.9.10 is in no subnet.';
    const status = {
      loadBalancer: { ingress: [{ ip: '10.0.9.10' }] },
      conditions: [{ status: 'False', reason: 'NotAnnounced', message }],
    };
    expect(getWrite(step).body).toMatchObject({ status });
  });

  test('is ready again when a node holds it', () => {
    const step = look('NoSeatHolder', 60_000, ['pool/0'], { ...publish('10.0.9.10'), conditions: [told] });
    expect(getWrite(step).body).toMatchObject({
      status: { conditions: [{ status: 'True', reason: 'Ready' }] },
    });
    expect(step).toMatchObject({ isLowPriority: true, event: null });
  });

  const type = 'vipnat.io/AddressReady';
  const told = { type, ...lost };
  const ready = {
    ...{ type, status: 'True', reason: 'Ready' },
    message: '10.0.9.10: all nodes of the pool serve it.',
  };
});
