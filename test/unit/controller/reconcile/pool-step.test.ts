import { describe, expect, test } from '@jest/globals';
import { makeNode, makePool, makeService, makeVirtualIp } from '../../../support/fakes/service-objects.ts';
import { decide, getWrite } from '../../../support/fakes/service-steps.ts';

describe('an AddressPool', () => {
  const of = { kind: 'AddressPool', name: 'pool' } as const;

  test('gets seats, whose anchors have VRIDs of their own', () => {
    const pools = [makePool('pool', { addresses: ['10.0.9.10-10.0.9.13'], seats: 2 })];
    const nodes = [makeNode('node-1'), makeNode('node-2')];
    const { status } = getWrite(decide({ pools, nodes }, of)).body as {
      status: { seats: { anchors: string[]; nodes: string[] }[] };
    };
    expect(status.seats.map(({ anchors }) => anchors)).toEqual([['10.0.9.10'], ['10.0.9.11']]);
    expect(status.seats.map((seat) => seat.nodes[0]).sort()).toEqual(['node-1', 'node-2']);
  });

  test('is refused when it has the address of a node, and named', () => {
    const body = JSON.stringify(getWrite(decide({ nodes: [makeNode('node-1', {}, '10.0.9.10')] }, of)).body);
    expect(body).toContain('AddressesReserved');
    expect(body).toContain('10.0.9.10 belongs to the node node-1.');
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

  test('is kept by its finalizer until nobody has an address of it', () => {
    const pools = [
      makePool(
        'pool',
        { addresses: ['10.0.9.10'] },
        { metadata: { deletionTimestamp: '2027-01-15T08:00:00Z' } },
      ),
    ];
    const used = getWrite(decide({ pools, virtualIps: [makeVirtualIp('10.0.9.10', ['apps/a'])] }, of));
    expect(used.path).toMatch(/status$/);
    expect(getWrite(decide({ pools }, of)).body).toMatchObject({ metadata: { finalizers: [] } });
  });
});
