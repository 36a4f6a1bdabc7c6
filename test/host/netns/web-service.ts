import { makeLoadBalancer, makeVirtualIp } from '../../support/kube-api/service-objects.ts';
import {
  overPods,
  podPort,
  type PodStates,
  serviceVips,
  type ServiceWorld,
  useServices,
} from './service-world.ts';

/** The address of the Service `web`, whose port is 80. */
export const vip = serviceVips.ipv4;

/** What a balancer logs when connections to it go to its three pods. */
export const balanced = /default\/web is balanced: 10\.77\.0\.60:80 TCP to 3 endpoints/;

export const listWeb = (states?: PodStates) => overPods('web', [{ port: podPort }], ['ipv4'], states);

/** Makes a cluster, an API and the Service `web` for each test, and removes them after it. */
export const useWebService = (): ServiceWorld =>
  useServices('each test', (world) => {
    const service = makeLoadBalancer('web', [{ port: 80 }]);
    return world.put(['Service', service], ...listWeb(), ['VirtualIP', makeVirtualIp(vip, ['web'])]);
  });
