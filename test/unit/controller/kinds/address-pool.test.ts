import { describe, test, expect } from '@jest/globals';
import { makeSeat } from '../../../support/fakes/seat-objects.ts';
import {
  makePool,
  makeNode,
  makeReport,
  makeVirtualIp,
  makeService,
  toServiceKey,
} from '../../../support/fakes/service-objects.ts';
import { getWrite, decide } from '../../../support/fakes/service-steps.ts';
import type { Seat } from '../../../../lib/api/vipnat.ts';
import { nodes as nodeResource, type NodeReport } from '../../../../lib/api/node.ts';

describe('an AddressPool', () => {
  const of = { kind: 'AddressPool', key: 'pool' } as const;

  const readSeats = (inventory: Parameters<typeof decide>[0]) => {
    const { status } = getWrite(decide(inventory, of)).body as { status: { seats: Seat[] } };
    return status.seats;
  };

  test('gets seats, whose VRIDs no other pool and no balancer names', () => {
    const other = { seats: [{ ...makeSeat(0, '10.0.8.10', ['node-1']), vrid: 51 }] };
    const pools = [
      makePool('pool', { addresses: ['10.0.9.10-10.0.9.13'], seats: 2, vrids: '50-53' }),
      makePool('other', { addresses: ['10.0.8.10'] }, { status: other }),
    ];
    const nodes = [makeNode('node-1'), makeNode('node-2')];
    const reports = [makeReport('node-1', 1, { apiVips: ['10.0.9.51'] })];
    const seats = readSeats({ pools, nodes, reports });
    expect(seats).toMatchObject([
      { index: 0, vrid: 50, network: '10.0.9.10' },
      { index: 1, vrid: 53, network: '10.0.9.10' },
    ]);
    expect(seats.map((seat) => seat.nodes[0]).sort()).toEqual(['node-1', 'node-2']);
  });

  test.each([
    // As of `kubectl cordon` and `kubectl drain`: the balancer stays on the node.
    ['is cordoned', { spec: { unschedulable: true } }, ['node-1', 'node-2']],
    ['is not ready', { status: { conditions: [{ type: 'Ready', status: 'False' }] } }, ['node-1', 'node-2']],
    ['is deleted', null, ['node-2']],
  ])('whose first node %s: %j', (_, parts, expected) => {
    const metadata = { name: 'node-1', uid: 'node-1', resourceVersion: '2' };
    const changed = parts === null ? [] : [nodeResource.schema.parse({ metadata, ...parts })];
    const seat = makeSeat(0, '10.0.9.10', ['node-1', 'node-2']);
    const pools = [makePool('pool', { addresses: ['10.0.9.10'], seats: 1 }, { status: { seats: [seat] } })];
    const nodes = [...changed, makeNode('node-2')];
    expect(getWrite(decide({ pools, nodes }, of)).body).toMatchObject({
      status: { seats: [{ nodes: expected }] },
    });
  });

  test.each([
    ['has no node that says it can serve nobody, while another one serves', ['none', 'direct'], ['node-2']],
    ['has all nodes where none serves: the last one holds on', ['none', 'none'], ['node-1', 'node-2']],
    ['has a node that is left to kube-proxy', ['kube-proxy', 'direct'], ['node-1', 'node-2']],
    ['has a node whose Lease is new', ['none', 'direct'], ['node-1', 'node-2'], {}],
  ] as const)(
    '%s: %j',
    (_, [first, second], expected, programmed: NodeReport['programmed'] = { virtualips: '1' }) => {
      const pools = [makePool('pool', { addresses: ['10.0.9.10'], seats: 1 })];
      const reports = [
        makeReport('node-1', 1, { mode: first, programmed }),
        makeReport('node-2', 1, { mode: second }),
      ];
      const nodes = [makeNode('node-1'), makeNode('node-2')];
      const seats = readSeats({ pools, nodes, reports });
      expect(seats.map((seat) => seat.nodes.toSorted())).toEqual([expected]);
    },
  );

  test('of 20 nodes names 16: the one that holds the seat, and those that could, before others', () => {
    const names = Array.from({ length: 20 }, (_, at) => `node-${at + 10}`);
    const seats = [makeSeat(0, '10.0.9.10', names)];
    const pools = [makePool('pool', { addresses: ['10.0.9.10'], seats: 1 }, { status: { seats } })];
    const reports = [
      makeReport('node-26', 1, { seats: [], unheld: { 'pool/0': 'it has no such subnet' } }),
      makeReport('node-28', 1, { seats: [] }),
      makeReport('node-29', 1, { mode: 'none', seats: ['pool/0'], programmed: {} }),
    ];
    const [seat] = readSeats({ pools, nodes: names.map((name) => makeNode(name)), reports });
    expect(seat?.nodes.toSorted()).toEqual([...names.slice(0, 14), 'node-28', 'node-29']);
  });

  test.each([
    ['that is deleted', { metadata: { deletionTimestamp: '2027-01-15' } }, {}],
    ['that is refused', {}, { reuseAfter: 'soon' }],
  ])('%s under its Services gets other nodes when its own are gone', (_, parts, spec) => {
    const seats = [makeSeat(0, '10.0.9.10', ['old-1', 'old-2'])];
    const pools = [makePool('pool', { addresses: ['10.0.9.10'], ...spec }, { ...parts, status: { seats } })];
    const virtualIps = [makeVirtualIp('10.0.9.10', ['apps/a'])];
    const write = getWrite(decide({ pools, virtualIps, nodes: [makeNode('new-1')] }, of));
    expect(write.body).toMatchObject({ status: { seats: [makeSeat(0, '10.0.9.10', ['new-1'])] } });
    const body = JSON.stringify(getWrite(decide({ pools, virtualIps, nodes: [] }, of)).body);
    expect(body).toContain('"reason":"NoNode"');
  });

  test('is refused when it has the address of a node, and named', () => {
    const body = JSON.stringify(getWrite(decide({ nodes: [makeNode('node-1', {}, '10.0.9.10')] }, of)).body);
    expect(body).toContain('AddressesReserved');
    expect(body).toContain('10.0.9.10 belongs to the node node-1.');
  });

  test('gives addresses when a Node reports one that a Service has as its own, and warns', () => {
    const [address, virtualIps] = ['10.0.9.11', [makeVirtualIp('10.0.9.11', ['apps/a'])]];
    const seats = [makeSeat(0, '10.0.9.10', ['node-1'])];
    const pools = [makePool('pool', { addresses: ['10.0.9.10-10.0.9.12'] }, { status: { seats } })];
    const nodes = [makeNode('node-1', {}, address)];
    const step = decide({ pools, nodes, virtualIps }, of);
    const message = `Services get its addresses. Nodes report addresses of Services as their own: ${address} (the node node-1). Start the kubelets there with --node-ip.`;
    const accepted = { type: 'Accepted', status: 'True', reason: 'NodeReportsAddress', message };
    expect(getWrite(step).body).toMatchObject({ status: { conditions: [accepted, {}, {}] } });
    expect(step).toMatchObject({ event: { type: 'Warning', reason: 'NodeReportsAddress', message } });
    const service = makeService('apps/b');
    expect(decide({ pools, nodes, virtualIps, services: [service] }, toServiceKey('apps/b'))).toMatchObject({
      write: { method: 'POST' },
    });
    // Told once.
    const status = { seats, conditions: [accepted] };
    const told = [makePool('pool', { addresses: ['10.0.9.10-10.0.9.12'] }, { status })];
    expect(decide({ pools: told, nodes, virtualIps }, of)).toMatchObject({ event: null });
  });

  test('is accepted without the addresses that Services name for themselves, and names them', () => {
    const services = [makeService('infra/x', { spec: { type: 'ClusterIP', externalIPs: ['10.0.9.10'] } })];
    expect(getWrite(decide({ services }, of)).body).toMatchObject({
      status: {
        conditions: expect.arrayContaining([
          expect.objectContaining({
            ...{ type: 'Accepted', status: 'True', reason: 'SomeKeptBack' },
            message: 'Services get its addresses, but not 10.0.9.10 of infra/x.',
          }),
        ]),
      },
    });
  });

  test('that no node may hold names what excludes nodes', () => {
    const label = 'node.kubernetes.io/exclude-from-external-load-balancers';
    const nodes = [makeNode('node-1', { [label]: '' })];
    const body = JSON.stringify(getWrite(decide({ nodes }, of)).body);
    expect(body).toContain('"reason":"NoNode"');
    expect(body).toContain(`see nodeSelector, and the label ${label} of nodes.`);
  });

  describe('whose seats nodes cannot hold', () => {
    const unheld = { 'pool/0': '10.0.9.10 needs the interface eth9, which has no IPv4 address here' };
    const seat = makeSeat(0, '10.0.9.10', ['node-1', 'node-2']);
    const pools = [makePool('pool', { addresses: ['10.0.9.10'], seats: 1 }, { status: { seats: [seat] } })];
    // The last one is none of the seat.
    const nodes = ['node-1', 'node-2', 'node-3'].map((name) => makeNode(name));
    const look = (...reports: NodeReport[]) => {
      const body = getWrite(decide({ pools, nodes, reports }, of)).body as {
        status: { conditions: { type: string }[] };
      };
      return body.status.conditions.find(({ type }) => type === 'Seated');
    };

    test('is not seated where no living node can: it names nodes and interfaces', () => {
      expect(look(makeReport('node-1', 1, { unheld }))).toMatchObject({
        ...{ status: 'False', reason: 'CannotBeHeld' },
        message: `No node can hold the seat pool/0. node-1: ${unheld['pool/0']}.`,
      });
    });

    test('is seated where another one can, and names those that cannot', () => {
      const reports = [makeReport('node-1', 1, { unheld }), makeReport('node-2', 1)];
      expect(look(...reports, makeReport('node-3', 1, { unheld }))).toMatchObject({
        ...{ status: 'True', reason: 'SomeNodesCannot' },
        message: `Some nodes cannot hold the seat pool/0. node-1: ${unheld['pool/0']}.`,
      });
      expect(look(makeReport('node-1', 1), makeReport('node-2', 1))).toMatchObject({ reason: 'Seated' });
    });
  });

  test('that has shrunk under its Services has free addresses', () => {
    const pools = [makePool('pool', { addresses: ['10.0.9.10-10.0.9.11'] })];
    const virtualIps = ['10.0.9.20', '10.0.9.21'].map((ip) => makeVirtualIp(ip, ['apps/a']));
    expect(JSON.stringify(getWrite(decide({ pools, virtualIps }, of)).body)).toContain('AddressesLeft');
    const others = ['10.0.9.10', '10.0.9.11'].map((ip) =>
      makeVirtualIp(ip, ['apps/a'], { spec: { pool: 'former', seat: 0 } }),
    );
    expect(JSON.stringify(getWrite(decide({ pools, virtualIps: others }, of)).body)).toContain('Exhausted');
  });

  test('is kept by its finalizer until nobody has an address of it', () => {
    const pools = [
      makePool('pool', { addresses: ['10.0.9.10'] }, { metadata: { deletionTimestamp: '2027-01-15' } }),
    ];
    const used = getWrite(decide({ pools, virtualIps: [makeVirtualIp('10.0.9.10', ['apps/a'])] }, of));
    expect(used.path).toMatch(/status$/);
    expect(getWrite(decide({ pools }, of)).body).toMatchObject({ metadata: { finalizers: [] } });
  });
});
