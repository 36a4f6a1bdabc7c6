import { describe, test, expect } from '@jest/globals';
import {
  makeVirtualIp,
  makeService,
  makeReport,
  toUser,
  publish,
  makePool,
  makeCache,
  nowMs,
  makeNode,
} from '../../../support/fakes/service-objects.ts';
import { decide, getWrite, nextStep } from '../../../support/fakes/service-steps.ts';
import { finalizer } from '../../../../lib/api/vipnat.ts';
import { makeSeat } from '../../../support/fakes/seat-objects.ts';

describe('a VirtualIP', () => {
  const of = { kind: 'VirtualIP', key: '10.0.9.10' } as const;

  test('is Programmed for its generation once every living candidate has it and its Services', () => {
    const virtualIps = [makeVirtualIp('10.0.9.10', ['apps/a'], { status: {} })];
    const services = [makeService('apps/a')];
    expect(decide({ services, virtualIps, reports: [makeReport('node-1', 19)] }, of).does).toBe('wait');
    expect(decide({ services, virtualIps }, of).does).toBe('wait');
    expect(
      getWrite(decide({ services, virtualIps, reports: [makeReport('node-1', 20, { seats: [] })] }, of)).body,
    ).toMatchObject({
      status: {
        conditions: [
          { type: 'Programmed', status: 'True', observedGeneration: 1 },
          { type: 'Announced', status: 'False', reason: 'NoSeatHolder' },
        ],
      },
    });
  });

  describe('that somebody deletes', () => {
    const metadata = { deletionTimestamp: '2027-01-15T07:59:00Z' };
    const services = [makeService('apps/a')];

    test('stays as it is while a Service has it: a condition says so, and an event', () => {
      const virtualIp = makeVirtualIp('10.0.9.10', ['apps/a'], { metadata });
      const reports = [makeReport('node-1', 20)];
      const step = decide({ services, virtualIps: [virtualIp], reports }, of);
      const body = getWrite(step).body as { status: { conditions: object[] } };
      const message = expect.stringContaining('have given it back: apps/a.');
      const said = { type: 'Terminating', status: 'True', reason: 'InUse', message };
      expect(body.status.conditions).toContainEqual(expect.objectContaining(said));
      expect(step).toMatchObject({ event: { type: 'Warning', reason: 'AddressKept' } });
      const told = makeVirtualIp('10.0.9.10', ['apps/a'], { metadata, status: body.status });
      expect(decide({ services, virtualIps: [told], reports }, of)).toEqual({ does: 'nothing' });
      const status = { ...body.status, releasedAt: '2027-01-15T08:00:00Z' };
      const kept = { ...metadata, finalizers: ['other.io/it'] };
      const left = decide({ virtualIps: [makeVirtualIp('10.0.9.10', [], { metadata: kept, status })] }, of);
      expect(JSON.stringify(getWrite(left).body)).toContain('has removed its finalizers: other.io/it.');
    });

    test('goes to nobody else when it has finalizers of others only', () => {
      const status = { releasedAt: '2027-01-15T07:00:00Z' };
      const rest = (...finalizers: string[]) =>
        makeVirtualIp('10.0.9.10', [], { metadata: { ...metadata, finalizers }, status });
      const annotations = { 'vipnat.io/addresses': '10.0.9.10' };
      const asking = [makeService('apps/a', { metadata: { annotations } })];
      const refused = decide({ services: asking, virtualIps: [rest('other.io/it')] });
      expect(JSON.stringify(refused)).toContain('10.0.9.10 is taken: its VirtualIP is being deleted');
      expect(decide({ virtualIps: [rest('other.io/it')] }, of)).toMatchObject({ does: 'wait' });
      // An earlier version left it so.
      const left = decide({ virtualIps: [rest('other.io/it', finalizer)] }, of);
      expect(getWrite(left).body).toMatchObject({ metadata: { finalizers: ['other.io/it'] } });
    });
  });

  test('has the finalizer while Services use it: the last one that leaves takes it along', () => {
    const reports = [makeReport('node-1', 20)];
    const make = (finalizers: readonly string[], more: object = {}) =>
      makeVirtualIp('10.0.9.10', [], {
        metadata: { finalizers, ...more },
        spec: { leaving: [toUser('apps/a')] },
        status: {},
      });
    const last = make(['other.io/it', finalizer]);
    expect(getWrite(decide({ virtualIps: [last], reports }, of)).body).toMatchObject({
      metadata: { resourceVersion: '20', finalizers: ['other.io/it'] },
      spec: { leaving: [] },
    });
    // An earlier version made it. What is being deleted gets none.
    const services = [makeService('apps/a', { spec: { type: 'ClusterIP' }, status: publish('10.0.9.10') })];
    const behind = [makeReport('node-1', 19)];
    const step = decide({ services, virtualIps: [make([])], reports: behind }, of);
    expect(step).toMatchObject({
      isLowPriority: true,
      write: { body: { metadata: { finalizers: [finalizer] } } },
    });
    const deleted = make(['other.io/it'], { deletionTimestamp: '2027-01-15T07:59:00Z' });
    expect(JSON.stringify(decide({ services, virtualIps: [deleted], reports: behind }, of))).not.toContain(
      finalizer,
    );
  });

  test('that is gone without the finalizer is made again as it was, with the users that are gone among those that leave', () => {
    const pools = [makePool('pool', { addresses: ['10.0.9.10'] })];
    const absent = [{ node: 'node-1', renewal: 'r' }];
    const store = makeCache({ pools, services: [makeService('apps/b')] });
    const before = makeVirtualIp('10.0.9.10', ['apps/a', 'apps/b'], { spec: { pool: 'typo', absent } });
    store.take('virtualIps', { key: of.key, after: before });
    store.take('virtualIps', { key: of.key, after: null });
    expect(getWrite(nextStep(of, store.view(nowMs)))).toMatchObject({
      method: 'POST',
      body: { spec: { pool: 'pool', services: [toUser('apps/b')], leaving: [toUser('apps/a')], absent } },
    });
    store.take('virtualIps', { key: of.key, after: makeVirtualIp('10.0.9.10', []) });
    store.take('virtualIps', { key: of.key, after: null });
    expect(nextStep(of, store.view(nowMs))).toEqual({ does: 'nothing' });
  });

  describe('says who holds it, and how that node balances', () => {
    const services = [makeService('apps/a')];
    const nodes = ['node-1', 'node-2'].map((name) => makeNode(name));
    const report = (node: string, seats: readonly string[]) =>
      makeReport(node, 20, { seats, mode: 'kube-proxy' });
    const look = (...reports: ReturnType<typeof report>[]) =>
      decide({ services, nodes, virtualIps: [makeVirtualIp('10.0.9.10', ['apps/a'])], reports }, of);

    test.each([
      [
        'one node',
        [report('node-1', ['pool/1']), report('node-2', ['pool/0'])],
        'Announced',
        ['node-2', 'kube-proxy'],
      ],
      ['none', [report('node-1', ['other/0']), report('node-2', [])], 'NoSeatHolder', [null, null]],
      [
        'two',
        [report('node-1', ['pool/0']), report('node-2', ['pool/0'])],
        'SeveralSeatHolders',
        [null, null],
      ],
    ] as const)('%s', (_, reports, reason, [seatHolder, mode]) => {
      const step = look(...reports);
      expect(getWrite(step).body).toMatchObject({ status: { seatHolder, mode } });
      expect(JSON.stringify(getWrite(step).body)).toContain(`"reason":"${reason}"`);
      // Nothing waits for it.
      expect(step).toMatchObject({ isLowPriority: true });
    });

    test('nobody, while another host answers for it', () => {
      const step = look({ ...report('node-1', ['pool/0']), inUse: ['10.0.9.10'] });
      expect(getWrite(step).body).toMatchObject({
        status: {
          seatHolder: null,
          conditions: expect.arrayContaining([
            expect.objectContaining({ type: 'Announced', status: 'False', reason: 'AddressInUse' }),
          ]),
        },
      });
      expect(step).not.toHaveProperty('isLowPriority');
    });

    test('and writes it once', () => {
      const body = getWrite(look(report('node-1', ['pool/0']))).body as { status: Record<string, unknown> };
      const virtualIps = [makeVirtualIp('10.0.9.10', ['apps/a'], { status: body.status })];
      const reports = [report('node-1', ['pool/0']), report('node-2', [])];
      expect(decide({ services, nodes, virtualIps, reports }, of)).toEqual({ does: 'nothing' });
    });
  });

  describe('that a Service leaves stays with it', () => {
    const leaving = (status = {}) =>
      makeVirtualIp('10.0.9.10', [], { spec: { leaving: [toUser('apps/a')] }, status });
    const reports = [makeReport('node-1', 20), makeReport('node-2', 19)];
    const nodes = ['node-1', 'node-2'].map((name) => makeNode(name));
    const unresponsive = ['node-2'];

    test('while a living node has not forgotten it', () => {
      expect(decide({ virtualIps: [leaving()], reports, nodes }, of)).toMatchObject({
        does: 'wait',
        waitsFor: 'nodes',
      });
    });

    test('while a silent node may serve it: a condition and an event name the node', () => {
      const step = decide({ virtualIps: [leaving()], reports, nodes, unresponsive }, of);
      expect(getWrite(step).body).toMatchObject({
        status: {
          conditions: [
            {
              ...{ type: 'Withdrawn', status: 'False', reason: 'NodeUnresponsive' },
              message: expect.stringContaining('node-2 may still serve it'),
            },
          ],
        },
      });
      expect(step).toMatchObject({ event: { type: 'Warning', reason: 'AddressKept' } });
      const { status } = getWrite(step).body as { status: object };
      expect(decide({ virtualIps: [leaving(status)], reports, nodes, unresponsive }, of)).toMatchObject({
        does: 'wait',
        waitsFor: 'nodes',
      });
      // And who asks for it is told.
      const asking = makeService('apps/b', {
        metadata: { annotations: { 'vipnat.io/addresses': '10.0.9.10' } },
      });
      const refused = decide(
        { services: [asking], virtualIps: [leaving(status)], reports, nodes, unresponsive },
        { kind: 'Service', key: 'apps/b' },
      );
      expect(JSON.stringify(refused)).toContain(
        'apps/a is giving it back, and the node node-2 may still serve it',
      );
    });

    test('until its Node is deleted', () => {
      const step = decide({ virtualIps: [leaving()], reports, nodes: nodes.slice(0, 1), unresponsive }, of);
      expect(getWrite(step).body).toMatchObject({ spec: { leaving: [] } });
    });

    test('and the condition says when that is over', () => {
      const said = { conditions: [{ type: 'Withdrawn', status: 'False', reason: 'NodeUnresponsive' }] };
      const free = makeVirtualIp('10.0.9.10', [], { status: said });
      expect(JSON.stringify(getWrite(decide({ virtualIps: [free] }, of)).body)).toContain(
        '"reason":"Forgotten"',
      );
    });
  });

  describe('of a pool with seats of both families', () => {
    const seats = ['10.0.9.0', '10.0.9.0', 'fd00:9::', 'fd00:9::'].map((network, index) =>
      makeSeat(index, network, ['node-1']),
    );
    const pools = (count: number) => [
      makePool('pool', { addresses: ['10.0.9.0/24', 'fd00:9::/120'], seats: count }, { status: { seats } }),
    ];
    const look = (ip: string, seat: number, count: number) =>
      decide(
        {
          services: [makeService('apps/a')],
          virtualIps: [makeVirtualIp(ip, ['apps/a'], { spec: { seat } })],
          pools: pools(count),
        },
        { ...of, key: ip.replaceAll(':', '-') },
      );

    test.each([
      ['10.0.9.12', 2, 2, [0, 1]],
      ['fd00:9::12', 0, 2, [2, 3]],
      ['fd00:9::12', 3, 1, [2]],
    ])('%s goes from the seat %i to one of its family that lasts', (name, seat, count, expected) => {
      const { spec } = getWrite(look(name, seat, count)).body as { spec: { seat: number } };
      expect(expected).toContain(spec.seat);
    });

    test('stays where it is otherwise', () => {
      for (const [name, seat] of [
        ['10.0.9.12', 1],
        ['10.0.9.12', 0],
        ['fd00:9::12', 2],
        ['fd00:9::12', 3],
      ] as const)
        expect(JSON.stringify(look(name, seat, 2))).not.toContain('"seat"');
    });
  });

  test('a Service that is gone leaves it, after the API has confirmed that', () => {
    const write = getWrite(decide({ virtualIps: [makeVirtualIp('10.0.9.10', ['apps/a'])] }, of));
    expect(write.body).toMatchObject({ spec: { services: [], leaving: [toUser('apps/a')] } });
    expect(write.confirm).toEqual([{ path: '/api/v1/namespaces/apps/services/a', version: null }]);
  });

  test('a Service of the same name is another one', () => {
    const services = [makeService('apps/a', { metadata: { uid: 'another' } })];
    const write = getWrite(decide({ services, virtualIps: [makeVirtualIp('10.0.9.10', ['apps/a'])] }, of));
    expect(write.confirm).toEqual([{ path: '/api/v1/namespaces/apps/services/a', version: '10' }]);
  });

  test('waits after it was given back, then is deleted as it was read', () => {
    const free = (releasedMs: number) =>
      makeVirtualIp('10.0.9.10', [], {
        status: { releasedAt: new Date(releasedMs).toISOString().replace('.000', '') },
      });
    expect(getWrite(decide({ virtualIps: [makeVirtualIp('10.0.9.10', [])] }, of)).body).toMatchObject({
      status: { releasedAt: '2027-01-15T08:00:00Z' },
    });
    expect(decide({ virtualIps: [free(nowMs - 59_000)] }, of)).toMatchObject({
      waitsFor: 'time',
      untilMs: nowMs + 1000,
    });
    expect(getWrite(decide({ virtualIps: [free(nowMs - 60_000)] }, of))).toMatchObject({
      method: 'DELETE',
      body: { preconditions: { uid: 'uid of 10.0.9.10', resourceVersion: '20' } },
    });
    // A date that was ahead, and is right again.
    expect(getWrite(decide({ virtualIps: [free(nowMs + 3_600_000)] }, of)).body).toMatchObject({
      status: { releasedAt: '2027-01-15T08:00:00Z' },
    });
  });
});
