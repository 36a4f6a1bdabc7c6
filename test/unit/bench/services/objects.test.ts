import { test, expect } from '@jest/globals';
import { toService, listChanges } from '../../../../tools/bench/services/objects.ts';

test('no two Services share an endpoint or an address', () => {
  const services = Array.from({ length: 1000 }, (_, number) => toService(number));
  expect(new Set(services.map(({ vip }) => vip)).size).toBe(1000);
  expect(new Set(services.flatMap(({ endpoints }) => endpoints)).size).toBe(100_000);
  expect([services[0]?.endpoints[0], services[999]?.endpoints[99]]).toEqual(['10.128.0.0', '10.129.134.159']);
});

test('each change brings an endpoint that was never there, and those before it stay', () => {
  const services = [toService(0), toService(1)];
  const changes = [...listChanges(services, 0, 100), ...listChanges(services, 100, 100)];
  expect(new Set(changes.map(({ address }) => address)).size).toBe(200);
  const fourth = changes[3];
  expect(fourth?.path).toMatch(/endpointslices\/web-1$/);
  const { endpoints } = fourth?.body as { readonly endpoints: readonly { readonly addresses: string[] }[] };
  const addresses = endpoints.flatMap((endpoint) => endpoint.addresses);
  expect(addresses).toHaveLength(100);
  expect(addresses.filter((address) => services[1]?.endpoints.includes(address))).toHaveLength(98);
  expect(addresses).toEqual(expect.arrayContaining([changes[1]?.address, fourth?.address]));
});
