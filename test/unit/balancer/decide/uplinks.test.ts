import { expect, test } from '@jest/globals';
import { findUplinks, listUplinks } from '../../../../balancer/decide/uplinks.ts';

const on = (device: string, address: string, prefixLength: number) =>
  ({ family: address.includes(':') ? 'ipv6' : 'ipv4', device, address, prefixLength }) as const;
const host = [
  on('lo', '127.0.0.1', 8),
  on('eth0', '10.77.0.11', 24),
  on('eth0', '10.77.0.60', 32),
  on('eth1', '10.77.0.12', 24),
  on('cni0', '10.244.1.1', 24),
  on('eth0', 'fd77::11', 64),
];
const ipvs = on('kube-ipvs0', '10.77.0.60', 32);

test('where kube-proxy has no interface of its own the kernel can tell', () => {
  expect(listUplinks(host)).toBeNull();
  expect(findUplinks(['10.77.0.60'], null)).toBeNull();
});

test('clients come by the interfaces in whose subnet the address is', () => {
  const uplinks = listUplinks([...host, ipvs]);
  expect(findUplinks(['10.77.0.60'], uplinks)).toEqual(['eth0', 'eth1']);
  expect(findUplinks(['fd77::60'], uplinks)).toEqual(['eth0']);
  expect(findUplinks(['10.99.0.60'], uplinks)).toBeNull();
});
