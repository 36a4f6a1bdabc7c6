import { afterEach } from '@jest/globals';
import { makeEndpoints, makeLoadBalancer, makeVirtualIp } from '../../support/kube-api/service-objects.ts';
import { type Cluster } from '../../support/network/cluster.ts';
import { useCluster } from '../../support/network/use-cluster.ts';
import { podPort, pods, serviceVips, ServiceWorld } from './service-world.ts';

/** The address of the Service `web`, whose port is 80. */
export const vip = serviceVips.ipv4;

/** What a balancer logs when connections to it go to its three pods. */
export const balanced = /default\/web is balanced: 10\.77\.0\.60:80 TCP to 3 endpoints/;

/** Makes a cluster, an API and the Service `web` for each test, and removes them after it. To be asked within a test. */
export function useWebService(): { readonly cluster: Cluster; readonly world: ServiceWorld } {
  let cluster: Cluster;
  let world: ServiceWorld;
  useCluster('each test', async (made) => {
    cluster = made;
    world = await ServiceWorld.create(cluster);
    const addresses = pods.map(({ ipv4 }) => ipv4);
    await world.put(
      ['Service', makeLoadBalancer('web', [{ port: 80 }])],
      ['EndpointSlice', makeEndpoints('web', [{ port: podPort }], addresses)],
      ['VirtualIP', makeVirtualIp(vip, ['web'])],
    );
  });
  afterEach(() => {
    (world as ServiceWorld | undefined)?.close();
  });
  return {
    get cluster() {
      return cluster;
    },
    get world() {
      return world;
    },
  };
}
