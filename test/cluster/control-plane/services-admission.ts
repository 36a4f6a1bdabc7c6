import type { ServicesWorld } from './services-world.ts';
import { describe, test, expect } from '@jest/globals';
import { addressPools, virtualIps } from '../../../lib/api/vipnat.ts';

/** Tests of what a real apiserver refuses by the printed definitions. */
export function testAdmission(world: () => ServicesWorld): void {
  describe('at admission', () => {
    const tryPool = async (spec: object) => {
      const type = { apiVersion: 'vipnat.io/v1alpha1', kind: 'AddressPool' };
      const object = { ...type, metadata: { name: 'tried' }, spec };
      return await world().api.ask({ method: 'POST', path: `${addressPools.path}?dryRun=All`, object });
    };

    const only = (addresses: string) => ({ addresses: [addresses] });
    test.each([
      { addresses: [] },
      ...['10.0.9.300', '10.0.9.10-', '10.0.9.10-fd00::1', '10.0.9.5/24', '0.0.0.0/0', '::/0'].map(only),
      ...['10.0.10.0-10.0.9.255', 'fd00:9::ff-fd00:9::1', 'fd00:0:0:1::-fd00::ffff:ffff'].map(only),
      ...['127.0.0.1', '169.254.1.0/24', '169.0.0.0/8', '169.253.0.0-169.254.0.9', '224.0.0.5'].map(only),
      ...['0.0.0.0', '255.255.255.255', '::1', '::/64', 'fe80::1', 'ff02::1-ff02::9'].map(only),
      { addresses: ['10.0.9.0/24'], seats: 0 },
      ...['0', '250-256', '60-51'].map((vrids) => ({ addresses: ['10.0.9.0/24'], vrids })),
      ...['soon', '1.0005s'].map((reuseAfter) => ({ addresses: ['10.0.9.0/24'], reuseAfter })),
      ...[{ operator: 'In' }, { operator: 'Exists', values: ['a'] }].map((expression) => ({
        addresses: ['10.0.9.0/24'],
        nodeSelector: { matchExpressions: [{ key: 'zone', ...expression }] },
      })),
      { autoAssign: true },
    ])('the pool %j is refused', async (spec) => {
      expect(await tryPool(spec)).toMatchObject({ code: 422 });
    });

    test.each([
      ...['10.0.9.0/24', '10.0.9.7', 'fd00:9::/120', 'fd00:9::7', '10.0.9.10-10.0.9.99'],
      ...['fd00:9::1-fd00:9::ff', '10.0.9.255-10.0.10.0', '9.255.255.255 - 10.0.0.0'],
      ...['fd00::ffff-fd00::1:0', '10.0.9.10-10.0.9.10'],
    ])('a pool of %s is taken', async (addresses) => {
      expect(await tryPool({ addresses: [addresses] })).toMatchObject({ code: 201 });
    });

    test.each([
      ['10.0.9.10', 201],
      ['fd00-9--a', 201],
      ['web', 422],
    ])('a VirtualIP called %s is answered with %i', async (name, code) => {
      const spec = { pool: 'default', seat: 0, services: [] };
      const object = { apiVersion: 'vipnat.io/v1alpha1', kind: 'VirtualIP', metadata: { name }, spec };
      const path = `${virtualIps.path}?dryRun=All`;
      expect(await world().api.ask({ method: 'POST', path, object })).toMatchObject({ code });
    });
  });
}
