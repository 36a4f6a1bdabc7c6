import { test, expect } from '@jest/globals';
import { toService, changeEndpoint } from '../../../../tools/bench/beside/objects.ts';

test('Services have addresses and endpoints of their own, also those that come and go', () => {
  const services = Array.from({ length: 1200 }, (_, number) => toService(number));
  expect(new Set(services.map(({ vip }) => vip)).size).toBe(1200);
  expect(new Set(services.flatMap(({ endpoints }) => endpoints)).size).toBe(3600);
  expect(services.at(-1)?.vip).toBe('10.78.20.175');
});

test('a change brings an address that was never there, and leaves the other endpoints', () => {
  const service = toService(0);
  const changed = changeEndpoint(changeEndpoint(service, 0), 1000);
  expect(changed.endpoints).toEqual(['10.192.0.0', '10.192.3.232', service.endpoints[2]]);
});
