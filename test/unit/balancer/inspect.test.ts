import { test, expect } from '@jest/globals';
import { FakeBalancerKernel } from '../../support/fakes/balancer-kernel.ts';
import { removeTables } from '../../../balancer/inspect.ts';

test('cleanup removes all tables of a balancer, also those that it leaves where it is killed at its start', async () => {
  const kernel = new FakeBalancerKernel();
  const tables = ['ip vipnat-lb', 'ip6 vipnat-lb', 'ip vipnat-vrrp', 'ip vipnat-trial', 'ip6 vipnat-trial'];
  await kernel.meddle([...tables, 'ip vipnat', 'ip filter'].map((table) => `add table ${table}\n`).join(''));
  expect(await removeTables(kernel, true)).toEqual(tables);
  expect(kernel.scripts).toEqual([]);
  expect(await removeTables(kernel, false)).toEqual(tables);
  expect(await removeTables(kernel, false)).toEqual([]);
  expect((await kernel.readHandles('vipnat')).ipv4).not.toBeNull();
});
