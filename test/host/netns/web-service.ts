import { makeEndpoints, makeLoadBalancer, makeVirtualIp } from '../../support/kube-api/service-objects.ts';
import { podPort, pods, serviceVips, type ServiceWorld, useServices } from './service-world.ts';

/** The address of the Service `web`, whose port is 80. */
export const vip = serviceVips.ipv4;

/** What a balancer logs when connections to it go to its three pods. */
export const balanced = /default\/web is balanced: 10\.77\.0\.60:80 TCP to 3 endpoints/;

/** Makes a cluster, an API and the Service `web` for each test, and removes them after it. */
export function useWebService(): ServiceWorld {
  const addresses = pods.map(({ ipv4 }) => ipv4);
  return useServices('each test', (world) =>
    world.put(
      ['Service', makeLoadBalancer('web', [{ port: 80 }])],
      ['EndpointSlice', makeEndpoints('web', [{ port: podPort }], addresses)],
      ['VirtualIP', makeVirtualIp(vip, ['web'])],
    ),
  );
}
