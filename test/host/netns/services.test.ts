import { afterAll, describe, expect, test } from '@jest/globals';
import { type Cluster } from '../../support/network/cluster.ts';
import { useCluster } from '../../support/network/use-cluster.ts';
import { limitMs } from '../../support/host/vipnat.ts';
import { makeEndpoints, makeLoadBalancer, makeVirtualIp } from '../../support/kube-api/service-objects.ts';
import { podPort, pods, serviceVips, ServiceWorld } from './service-world.ts';

describe('a Service', () => {
  let cluster: Cluster;
  let world: ServiceWorld;

  useCluster('all tests', async (made) => {
    cluster = made;
    world = await ServiceWorld.create(cluster);
  });

  afterAll(() => {
    world.close();
  });

  test(
    'is balanced evenly over its pods',
    async () => {
      const ports = [{ port: 80 }];
      await world.put(
        ['Service', makeLoadBalancer('web', ports)],
        [
          'EndpointSlice',
          makeEndpoints(
            'web',
            [{ port: podPort }],
            pods.map(({ ipv4 }) => ipv4),
          ),
        ],
        ['VirtualIP', makeVirtualIp(serviceVips.ipv4, ['web'])],
      );
      await world.startBalancer(/default\/web is balanced: 10\.77\.0\.60:80 TCP to 3 endpoints/);
      const { apiservers, errors } = await cluster.seat('outside client').greet(serviceVips.ipv4, 80, 300);
      expect(errors).toEqual({});
      expect(Object.keys(apiservers).sort()).toEqual(pods.map(({ name }) => name).sort());
    },
    limitMs,
  );
});
