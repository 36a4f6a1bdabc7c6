import { test, expect } from '@jest/globals';
import { listServices, findFirst, nodeNames } from '../../../../tools/bench/takeover/objects.ts';

test('the first node has all addresses by the rule of MetalLB, which spreads others over all nodes', () => {
  const services = listServices(1000);
  expect(new Set(services.map(({ vip }) => vip)).size).toBe(1000);
  expect(services.filter(({ vip }) => findFirst(vip) !== 'n1')).toEqual([]);
  const all = Array.from({ length: 256 }, (_, last) => findFirst(`10.78.16.${last}`));
  expect([...new Set(all)].sort()).toEqual([...nodeNames]);
});

test('fewer Services are the first of more', () => {
  expect(listServices(1)).toEqual(listServices(20).slice(0, 1));
});
