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
  toServiceKey,
} from '../../../support/fakes/service-objects.ts';
import { decide, getWrite, nextStep, tell, testDecisions } from '../../../support/fakes/service-steps.ts';
import { finalizer } from '../../../../lib/api/vipnat.ts';
import { makeSeat } from '../../../support/fakes/seat-objects.ts';

describe('a VirtualIP', () => {
  const of = { kind: 'VirtualIP', key: '10.0.9.10' } as const;

  test('is Programmed for its generation once every living candidate has it and its Services', () => {
    const virtualIps = [makeVirtualIp('10.0.9.10', ['apps/a'], { status: {} })];
    const services = [makeService('apps/a')];
    const look = (...reports: ReturnType<typeof makeReport>[]) =>
      decide({ services, virtualIps, reports }, of);
    expect([look(makeReport('node-1', 19)).does, look().does]).toEqual(['wait', 'wait']);
    const step = look(makeReport('node-1', 20, { seats: [] }));
    const conditions = 'Programmed True Programmed; Announced False NoSeatHolder';
    expect(tell(step)).toBe(`PATCH VirtualIP 10.0.9.10; ${conditions}`);
    expect(JSON.stringify(step)).toContain('"observedGeneration":1');
  });

  describe('that somebody deletes', () => {
    const metadata = { deletionTimestamp: '2027-01-15T07:59:00Z' };
    const reports = [makeReport('node-1', 20)];
    const look = (
      users: string[],
      status: Readonly<Record<string, unknown>> | undefined,
      finalizers: readonly string[],
      services = users,
    ) => ({
      services: services.map((key) => makeService(key)),
      virtualIps: [
        makeVirtualIp('10.0.9.10', users, {
          metadata: { ...metadata, ...(finalizers.length === 0 ? {} : { finalizers }) },
          ...(status === undefined ? {} : { status }),
        }),
      ],
      reports,
    });

    test('stays as it is while a Service has it: a condition says so, and an event', () => {
      const step = decide(look(['apps/a'], undefined, []), of);
      expect(tell(step)).toContain('; Terminating True InUse');
      expect(tell(step)).toContain('; event Warning AddressKept');
      expect(JSON.stringify(step)).toContain('have given it back: apps/a.');
      const { status } = getWrite(step).body as { status: Record<string, unknown> };
      expect(tell(decide(look(['apps/a'], status, []), of))).toBe('nothing');
      const released = { ...status, releasedAt: '2027-01-15T08:00:00Z' };
      const left = decide({ ...look([], released, ['other.io/it']), reports: [] }, of);
      expect(JSON.stringify(left)).toContain('has removed its finalizers: other.io/it.');
      expect(tell(left)).not.toContain('; event');
    });

    test('goes to nobody else when it has finalizers of others only', () => {
      const rest = (...finalizers: string[]) =>
        look([], { releasedAt: '2027-01-15T07:00:00Z' }, finalizers).virtualIps;
      const annotations = { 'vipnat.io/addresses': '10.0.9.10' };
      const asking = [makeService('apps/a', { metadata: { annotations } })];
      const refused = decide({ services: asking, virtualIps: rest('other.io/it') });
      expect(JSON.stringify(refused)).toContain('10.0.9.10 is taken: its VirtualIP is being deleted');
      expect(tell(decide({ virtualIps: rest('other.io/it') }, of))).toContain('wait');
      // An earlier version left it so.
      const left = decide({ virtualIps: rest('other.io/it', finalizer) }, of);
      expect(tell(left)).toBe('PATCH VirtualIP 10.0.9.10; finalizers other.io/it');
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
    const struck = 'PATCH VirtualIP 10.0.9.10; finalizers other.io/it; leaving none; if services/a is gone';
    expect(tell(decide({ virtualIps: [last], reports }, of))).toBe(struck);
    // An earlier version made it. What is being deleted gets none.
    const services = [makeService('apps/a', { spec: { type: 'ClusterIP' }, status: publish('10.0.9.10') })];
    const behind = [makeReport('node-1', 19)];
    const step = decide({ services, virtualIps: [make([])], reports: behind }, of);
    expect(tell(step)).toBe(`PATCH VirtualIP 10.0.9.10; finalizers ${finalizer}; later`);
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
    const report = (node: string, seats: readonly string[], inUse: readonly string[] = []) =>
      makeReport(node, 20, { seats, inUse, mode: 'kube-proxy' });
    const look = (...reports: ReturnType<typeof report>[]) =>
      decide({ services, nodes, virtualIps: [makeVirtualIp('10.0.9.10', ['apps/a'])], reports }, of);
    const other = report('node-2', ['pool/0']);

    test.each([
      ['one node', [report('node-1', ['pool/1']), other], 'True Announced; later', 'node-2', 'kube-proxy'],
      ['no', [report('node-1', ['other/0']), report('node-2', [])], 'False NoSeatHolder; later', null, null],
      ['two', [report('node-1', ['pool/0']), other], 'False SeveralSeatHolders; later', null, null],
      // Nobody waits for the others.
      [
        'nobody, while another host answers for it',
        [report('node-1', ['pool/0'], ['10.0.9.10'])],
        'False AddressInUse; event Warning AddressInUse',
        null,
        null,
      ],
    ] as const)('%s', (...[, reports, announced, seatHolder, mode]) => {
      const step = look(...reports);
      expect(getWrite(step).body).toMatchObject({ status: { seatHolder, mode } });
      expect(tell(step).endsWith(`Announced ${announced}`)).toBe(true);
    });

    test('and writes it once', () => {
      const body = getWrite(look(report('node-1', ['pool/0']))).body as { status: Record<string, unknown> };
      const virtualIps = [makeVirtualIp('10.0.9.10', ['apps/a'], { status: body.status })];
      const reports = [report('node-1', ['pool/0']), report('node-2', [])];
      expect(tell(decide({ services, nodes, virtualIps, reports }, of))).toBe('nothing');
    });
  });

  describe('that a Service leaves stays with it', () => {
    const leaving = (status = {}) =>
      makeVirtualIp('10.0.9.10', [], { spec: { leaving: [toUser('apps/a')] }, status });
    const reports = [makeReport('node-1', 20), makeReport('node-2', 19)];
    const nodes = ['node-1', 'node-2'].map((name) => makeNode(name));
    const unresponsive = ['node-2'];
    const over = { conditions: [{ type: 'Withdrawn', status: 'False', reason: 'NodeUnresponsive' }] };

    testDecisions(
      {
        'while a living node still has it': [{ virtualIps: [leaving()], reports, nodes }, 'wait nodes'],
        'until its Node is deleted': [
          { virtualIps: [leaving()], reports, nodes: nodes.slice(0, 1), unresponsive },
          'PATCH VirtualIP 10.0.9.10; finalizers none; leaving none; if services/a is gone',
        ],
        'and the condition says when that is over': [
          { virtualIps: [makeVirtualIp('10.0.9.10', [], { status: over })] },
          'PATCH VirtualIP 10.0.9.10; Withdrawn True Forgotten',
        ],
      },
      of,
    );

    test('while a silent node may serve it: a condition and an event name the node', () => {
      const step = decide({ virtualIps: [leaving()], reports, nodes, unresponsive }, of);
      const told = 'PATCH VirtualIP 10.0.9.10; Withdrawn False NodeUnresponsive; event Warning AddressKept';
      expect(tell(step)).toBe(told);
      expect(JSON.stringify(step)).toContain('node-2 may still serve it');
      const { status } = getWrite(step).body as { status: object };
      const inventory = { virtualIps: [leaving(status)], reports, nodes, unresponsive };
      expect(tell(decide(inventory, of))).toBe('wait nodes');
      // And who asks for it is told.
      const metadata = { annotations: { 'vipnat.io/addresses': '10.0.9.10' } };
      const asking = [makeService('apps/b', { metadata })];
      const refused = decide({ ...inventory, services: asking }, toServiceKey('apps/b'));
      expect(JSON.stringify(refused)).toContain('is giving it back, and the node node-2 may still serve it');
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
      ['10.0.9.12', 2, 2, ['0', '1']],
      ['fd00:9::12', 0, 2, ['2', '3']],
      ['fd00:9::12', 3, 1, ['2']],
      ['10.0.9.12', 1, 2, ['stays']],
      ['10.0.9.12', 0, 2, ['stays']],
      ['fd00:9::12', 2, 2, ['stays']],
      ['fd00:9::12', 3, 2, ['stays']],
    ])('%s goes from seat %i to one of its family that lasts, or stays: %i, %j', (ip, seat, count, to) => {
      const [, next = 'stays'] = /"seat":(\d+)/.exec(JSON.stringify(look(ip, seat, count))) ?? [];
      expect(to).toContain(next);
    });
  });

  test('a Service that is gone leaves it, after the API has confirmed that', () => {
    const virtualIps = [makeVirtualIp('10.0.9.10', ['apps/a'])];
    const left = 'PATCH VirtualIP 10.0.9.10; services none; leaving apps/a; if services/a is';
    expect(tell(decide({ virtualIps }, of))).toBe(`${left} gone`);
    // One of the same name is another one.
    const services = [makeService('apps/a', { metadata: { uid: 'another' } })];
    expect(tell(decide({ services, virtualIps }, of))).toBe(`${left} 10`);
  });

  test('waits after it was given back, then is deleted as it was read', () => {
    const free = (releasedMs: number) =>
      makeVirtualIp('10.0.9.10', [], {
        status: { releasedAt: new Date(releasedMs).toISOString().replace('.000', '') },
      });
    const now = { status: { releasedAt: '2027-01-15T08:00:00Z' } };
    const look = (virtualIp: ReturnType<typeof free>) => decide({ virtualIps: [virtualIp] }, of);
    expect(getWrite(look(makeVirtualIp('10.0.9.10', []))).body).toMatchObject(now);
    expect(tell(look(free(nowMs - 59_000)))).toBe('wait time 1000');
    expect(getWrite(look(free(nowMs - 60_000)))).toMatchObject({
      method: 'DELETE',
      body: { preconditions: { uid: 'uid of 10.0.9.10', resourceVersion: '20' } },
    });
    // A date that was ahead, and is right again.
    expect(getWrite(look(free(nowMs + 3_600_000))).body).toMatchObject(now);
  });

  // Nodes of the seat are node-1 to node-3.
  test.each([
    ['the node that holds its seat', 'node-1 holds finds', true],
    ['a node that may hold it, while another one does', 'node-1 holds, node-2 finds', false],
    ['two that had it, and find the one that has it', 'node-1 holds, node-2 finds, node-3 finds', false],
    ['two of them, while none holds it', 'node-2 finds, node-3 finds', true],
    ['all of them', 'node-1 holds finds, node-2 finds, node-3 finds', true],
    ['one of two that say they hold it', 'node-1 holds finds, node-2 holds', false],
    ['one node, while none holds it', 'node-1 finds', false],
    ['two that hold it, and find each other', 'node-1 holds finds, node-2 holds finds', false],
    ['a holder, beside a silent one that may hold it', 'node-1 holds finds, node-2 holds silent', false],
    ['a holder, beside a silent node that was none', 'node-1 holds finds, node-2 silent', true],
    ['a holder, beside one that is left out and has it still', 'node-1 holds finds, node-8 holds', false],
    ['nodes that may not hold the seat', 'node-1 holds, node-8 holds finds, node-9 holds finds', false],
  ])('that another host has it, published, counts from %s: %s', (_, said, isFound) => {
    const seat = makeSeat(0, '10.0.9.10', ['node-1', 'node-2', 'node-3']);
    const step = decide(
      {
        services: [makeService('apps/a', { status: publish('10.0.9.10') })],
        nodes: [1, 2, 3, 8, 9].map((index) => makeNode(`node-${index}`)),
        pools: [makePool('pool', { addresses: ['10.0.9.10'], seats: 1 }, { status: { seats: [seat] } })],
        virtualIps: [makeVirtualIp('10.0.9.10', ['apps/a'])],
        reports: said.split(', ').map((text) =>
          makeReport(text.split(' ')[0] ?? '', 20, {
            seats: text.includes('holds') ? ['pool/0'] : [],
            inUse: text.includes('finds') ? ['10.0.9.10'] : [],
          }),
        ),
        unresponsive: said.includes('silent') ? ['node-2'] : [],
      },
      of,
    );
    expect(JSON.stringify(step).includes('"reason":"AnotherHost"')).toBe(isFound);
  });
});
