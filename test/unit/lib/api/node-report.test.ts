import {
  toLeaseName,
  type Lease,
  parseNodeLease,
  toAnnotations,
  listServices,
  isProgrammed,
} from '../../../../lib/api/node.ts';
import { describe, test, expect } from '@jest/globals';

const report = {
  node: 'worker-1.example',
  programmed: { virtualips: '120', services: '99' },
  seats: [],
  mode: 'direct',
  inUse: [],
} as const;

const toLease = (annotations: Record<string, string>, name = toLeaseName(report.node)): Lease => ({
  metadata: { name, uid: 'u', resourceVersion: '7', generation: 0, annotations },
  spec: { leaseDurationSeconds: 40, renewTime: '2026-11-23T09:00:00.000000Z' },
});

describe('the report of a node in its Lease', () => {
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
