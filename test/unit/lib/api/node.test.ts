/** What a controller makes of Leases that balancers of other versions have written: they are here as texts, and not made by the code of today. */
import { toLeaseResource, parseNodeLease, type NodeReport, toAnnotations } from '../../../../lib/api/node.ts';
import { describe, test, expect } from '@jest/globals';
import { virtualIps, addressPools } from '../../../../lib/api/vipnat.ts';
import { makeSeat } from '../../../support/fakes/seat-objects.ts';
import { services } from '../../../../lib/api/service.ts';

const { schema } = toLeaseResource('vipnat-system');

const read = (annotations: Readonly<Record<string, string>>, spec: object = {}) =>
  parseNodeLease(
    schema.parse({
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: { name: 'vipnat-lb-w1', uid: 'u', resourceVersion: '7', annotations },
      spec: { holderIdentity: 'w1', renewTime: '2026-11-23T09:00:00.000000Z', ...spec },
    }),
  );

/** As balancers wrote it before early EndpointSlices, drains and node health. */
const first = {
  'vipnat.io/programmed': '{"virtualips":"120","services":"99","endpointslices":"1000"}',
  'vipnat.io/seats': '["default/0"]',
  'vipnat.io/mode': 'direct',
  'vipnat.io/addresses-in-use': '[]',
};

/** As they write it now. */
const current = {
  'vipnat.io/programmed': '{"virtualips":"120","services":"99","endpointslices":"1000","earlyslices":"1001"}',
  'vipnat.io/seats': '["default/0"]',
  'vipnat.io/mode': 'direct',
  'vipnat.io/addresses-in-use': '["10.0.9.12"]',
  'vipnat.io/node-addresses': '["10.77.0.21","fd77::21"]',
  'vipnat.io/unresponsive-nodes': '[{"node":"w2","since":"2026-11-23T09:00:00.000Z"}]',
  'vipnat.io/protocols-not-supported': '["SCTP"]',
  'vipnat.io/draining':
    '[{"service":"default/web","endpoint":"10.244.1.2","since":"2026-11-23T09:00:00.000Z","connections":3}]',
  'vipnat.io/cannot-hold': '{"default/1":"10.77.0.200 needs the interface eth9"}',
  'vipnat.io/left-to-kube-proxy': '{"default/web":"it has more than 2000 source ranges"}',
  'vipnat.io/clients-dropped': '{"default/dns":"rp_filter of flannel.1 is 1"}',
  'vipnat.io/api-virtual-ips': '["10.77.0.50"]',
  'vipnat.io/announced': '119',
};

const report: NodeReport = {
  node: 'w1',
  programmed: { virtualips: '120', services: '99', endpointslices: '1000', earlyslices: '1001' },
  ...{ seats: ['default/0'], mode: 'direct', inUse: ['10.0.9.12'], addresses: ['10.77.0.21', 'fd77::21'] },
  unresponsive: [{ node: 'w2', since: '2026-11-23T09:00:00.000Z' }],
  unsupported: ['SCTP'],
  draining: [
    { service: 'default/web', endpoint: '10.244.1.2', since: '2026-11-23T09:00:00.000Z', connections: 3 },
  ],
  unheld: { 'default/1': '10.77.0.200 needs the interface eth9' },
  left: { 'default/web': 'it has more than 2000 source ranges' },
  dropping: { 'default/dns': 'rp_filter of flannel.1 is 1' },
  apiVips: ['10.77.0.50'],
  announced: '119',
};

describe('the Lease of a balancer', () => {
  test('of this version is written and read as it stands here: whoever changes that changes it for other versions too', () => {
    expect(toAnnotations(report)).toEqual(current);
    expect(read(current, { leaseDurationSeconds: 40 })).toEqual({
      ...{ report, renewal: '2026-11-23T09:00:00.000000Z', durationMs: 40_000 },
    });
  });

  test('of an older version says nothing of what it does not know', () => {
    expect(read(first)).toEqual({
      report: {
        ...{ node: 'w1', programmed: { virtualips: '120', services: '99', endpointslices: '1000' } },
        ...{ seats: ['default/0'], mode: 'direct', inUse: [] },
      },
      renewal: '2026-11-23T09:00:00.000000Z',
      durationMs: 40_000,
    });
  });

  test('of a later version counts with all that is known: further annotations, kinds and fields are left out', () => {
    const later = {
      ...current,
      'vipnat.io/programmed': `${current['vipnat.io/programmed'].slice(0, -1)},"gateways":{"api":"7"}}`,
      'vipnat.io/unresponsive-nodes': current['vipnat.io/unresponsive-nodes'].replace('{', '{"by":["w3"],'),
      'vipnat.io/draining': current['vipnat.io/draining'].replace('{', '{"protocol":"TCP",'),
      'vipnat.io/something-new': '{"a":[1]}',
    };
    // A node can write any duration: it lives no longer by that.
    expect(read(later, { leaseDurationSeconds: 2_147_483_647, strategy: 'x' })).toMatchObject({
      report,
      durationMs: 40_000,
    });
    expect(read(later)?.report).toEqual(report);
  });

  test('of a later version that balances in a way that is not known gets no address', () => {
    expect(read({ ...current, 'vipnat.io/mode': 'ebpf' })?.report).toEqual({ ...report, mode: 'none' });
  });

  test('one word in another form is lost alone', () => {
    const { unheld, ...others } = report;
    expect(unheld).toBeDefined();
    expect(read({ ...current, 'vipnat.io/cannot-hold': '[{"seat":"default/1"}]' })?.report).toEqual(others);
  });
});

describe('objects of a later controller', () => {
  const metadata = { name: '10.0.9.10', uid: 'u', resourceVersion: '7', generation: 1 };

  test('a VirtualIP is read without what is not known', () => {
    const known = { pool: 'default', seat: 0, services: [] };
    const status = { seatHolder: 'w1', conditions: [] };
    expect(
      virtualIps.schema.parse({
        metadata,
        spec: { ...known, tenant: 'a', limits: { perSecond: 5 } },
        status: { ...status, zone: 'b' },
      }),
    ).toMatchObject({ spec: { ...known, shareKey: '', leaving: [], absent: [] }, status });
  });

  test('so is a pool, with its seats', () => {
    const seat = makeSeat(0, '10.0.9.10', ['w1']);
    const parsed = addressPools.schema.parse({
      metadata: { ...metadata, name: 'default' },
      spec: { addresses: ['10.0.9.10-10.0.9.20'], announce: 'bgp' },
      status: { seats: [{ ...seat, standby: ['w2'] }], capacity: 11 },
    });
    expect(parsed.status?.seats).toMatchObject([{ index: 0, nodes: ['w1'] }]);
    expect(parsed.spec).not.toHaveProperty('announce');
  });
});

test("of annotations only vipnat's own are kept: others may be long, and there may be many", () => {
  const metadata = { name: 'a', namespace: 'apps', uid: 'a', resourceVersion: '1' };
  const annotations = {
    ...{ 'vipnat.io/share': 'web', 'lb.zcloud.cn/vip': '10.0.9.10', 'vipnat.io/of-nobody': 'x' },
    example: 'x'.repeat(1000),
  };
  const service = services.schema.parse({ metadata: { ...metadata, annotations }, spec: {} });
  expect(service.metadata.annotations).toEqual({ 'vipnat.io/share': 'web', 'lb.zcloud.cn/vip': '10.0.9.10' });
  const drained = { 'vipnat.io/drained': 'w1', example: 'x' };
  const pool = addressPools.schema.parse({
    metadata: { ...metadata, annotations: drained },
    spec: { addresses: [] },
  });
  expect(pool.metadata.annotations).toEqual({ 'vipnat.io/drained': 'w1' });
  expect(services.schema.parse({ metadata, spec: {} }).metadata.annotations).toBeUndefined();
});
