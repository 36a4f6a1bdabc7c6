import {
  type NodeReport,
  toLeaseName,
  type Lease,
  parseNodeLease,
  toAnnotations,
  listServices,
  isProgrammed,
} from '../../../../lib/api/node.ts';
import { describe, test, expect } from '@jest/globals';

const report: NodeReport = {
  node: 'worker-1.example',
  programmed: { virtualips: '120', services: '99', endpointslices: '1000', earlyslices: '1001' },
  seats: ['default/0', 'other/3'],
  mode: 'direct',
  inUse: ['10.0.9.12', 'fd00:9::c'],
  draining: [
    { service: 'default/web', endpoint: '10.244.1.2', since: '2026-11-23T09:00:00.000Z', connections: 3 },
    { service: 'default/web', endpoint: 'fd00::2', since: '2026-11-23T09:00:00.000Z', connections: null },
  ],
  unsupported: ['SCTP'],
  apiVips: ['10.0.9.50', 'fd00:9::50'],
  unheld: { 'default/1': 'it has no address of its own' },
};

const toLease = (annotations: Record<string, string>, name = toLeaseName(report.node)): Lease => ({
  metadata: { name, uid: 'u', resourceVersion: '7', generation: 0, annotations },
  spec: { leaseDurationSeconds: 40, renewTime: '2026-11-23T09:00:00.000000Z' },
});

describe('the report of a node in its Lease', () => {
  test('is read as it was written', () => {
    expect(parseNodeLease(toLease(toAnnotations(report)))).toEqual({
      report,
      renewal: '2026-11-23T09:00:00.000000Z',
      durationMs: 40_000,
    });
  });

  test('says of 16 Services at most that they are left to kube-proxy, or lose clients, with a clause that is not long', () => {
    const all = new Map(Array.from({ length: 40 }, (_, at) => [`default/s${40 - at}`, 'x'.repeat(9000)]));
    const read = parseNodeLease(
      toLease(toAnnotations({ ...report, ...listServices({ left: all, dropping: all }) })),
    );
    const { left = {}, dropping = {} } = read?.report ?? {};
    const [leaving, losing] = [Object.entries(left), Object.entries(dropping)];
    expect([leaving.length, leaving[0]]).toEqual([16, ['default/s1', 'x'.repeat(120)]]);
    expect([losing.length, losing[0]]).toEqual([16, ['default/s1', 'x'.repeat(240)]]);
    expect(listServices({ left: new Map(), dropping: new Map() })).toEqual({});
  });

  test('is of balancers alone', () => {
    expect(parseNodeLease(toLease({}, 'vipnat-controller'))).toBeNull();
  });

  test.each([
    ['nothing is there', {}],
    [
      'nothing can be read',
      {
        'vipnat.io/programmed': '{"services": 7}',
        'vipnat.io/seats': '["a", 1]',
        'vipnat.io/mode': 'relay',
        'vipnat.io/addresses-in-use': '[',
        'vipnat.io/cannot-hold': '["default/1"]',
      },
    ],
  ])('says nothing where %s', (_, annotations) => {
    expect(parseNodeLease(toLease(annotations as Record<string, string>))?.report).toEqual({
      node: report.node,
      programmed: {},
      seats: [],
      mode: 'none',
      inUse: [],
    });
  });

  test.each([
    ['120', true],
    ['99', true],
    ['121', false],
    ['1000', false],
  ])('has version %s of the VirtualIPs: %s', (version, expected) => {
    expect(isProgrammed(report, 'virtualips', version)).toBe(expected);
  });

  test('has no version where it says none, or no number', () => {
    expect(isProgrammed({ programmed: {} }, 'services', '1')).toBe(false);
    expect(isProgrammed({ programmed: { services: 'x' } }, 'services', '1')).toBe(false);
  });
});
