import { afterAll, describe, expect, test } from '@jest/globals';
import { type Cluster } from '../../support/network/cluster.ts';
import { useCluster } from '../../support/network/use-cluster.ts';
import { makeEndpoints, makeLoadBalancer, makeVirtualIp } from '../../support/kube-api/service-objects.ts';
import { type ApiChange, podPort, pods, serviceVips, ServiceWorld } from './service-world.ts';

const limitMs = 120_000;

const podNames = pods.map(({ name }) => name).sort();
const [first = { name: '', node: '' }] = pods;
const last = { ready: false, serving: true, terminating: true };

/** The pods of a Service, of both families and for TCP and UDP: those in `ending` end, those in `without` are gone. */
function list(
  name: string,
  { ending = [], without = [] }: Partial<Record<'ending' | 'without', string[]>> = {},
): ApiChange[] {
  const ports = [
    { port: podPort, name: 't' },
    { port: podPort, name: 'u', protocol: 'UDP' },
  ];
  const there = pods.filter((pod) => !without.includes(pod.name));
  return (['ipv4', 'ipv6'] as const).map((family) => [
    'EndpointSlice',
    makeEndpoints(
      name,
      ports,
      there.map((pod) => ({
        addresses: [pod[family]],
        nodeName: pod.node,
        conditions: ending.includes(pod.name) ? last : { ready: true },
      })),
    ),
  ]);
}

function make(name: string, port: number, spec: object = {}): ApiChange {
  const listen = [
    { port, name: 't' },
    { port, name: 'u', protocol: 'UDP' },
  ];
  return ['Service', makeLoadBalancer(name, listen, { spec: { externalTrafficPolicy: 'Local', ...spec } })];
}

describe('Services with policy Local, while m1 holds their address', () => {
  let cluster: Cluster;
  let world: ServiceWorld;

  useCluster('all tests', async (made) => {
    cluster = made;
    world = await ServiceWorld.create(cluster);
    const names = ['local', 'elsewhere', 'kept'];
    await world.put(
      ...[make('local', 84), ...list('local')],
      ...[make('elsewhere', 87), ...list('elsewhere', { without: [first.name] })],
      ...[make('kept', 88, { sessionAffinity: 'ClientIP' }), ...list('kept')],
      ['VirtualIP', makeVirtualIp(serviceVips.ipv4, names)],
      ['VirtualIP', makeVirtualIp(serviceVips.ipv6, names)],
    );
    for (const { node } of pods) await world.startBalancer(/default\/local is balanced/, { node });
  });

  afterAll(() => {
    (world as ServiceWorld | undefined)?.close();
  });

  const client = () => cluster.seat('outside client');

  test.each([
    ['ipv4', '10.77.0.100'],
    ['ipv6', 'fd77::100'],
  ] as const)(
    'are balanced over the pods of all nodes, which see the client: %s',
    async (family, address) => {
      const { apiservers, from, errors } = await client().request(serviceVips[family], 84, 150);
      expect({ errors, from }).toEqual({ errors: {}, from: { [address]: 150 } });
      expect(Object.keys(apiservers).sort()).toEqual(podNames);
      expect(Math.min(...Object.values(apiservers))).toBeGreaterThan(20);
    },
    limitMs,
  );

  test(
    'are served also when no pod is on the node that holds the address, by UDP too',
    async () => {
      const { apiservers, errors } = await client().request(serviceVips.ipv4, 87, 60);
      expect({ errors, names: Object.keys(apiservers).sort() }).toEqual({
        errors: {},
        names: podNames.filter((name) => name !== first.name),
      });
      const answers = await world.askByUdp('client', serviceVips.ipv4, 87, 30);
      expect(answers.filter((answer) => !answer.endsWith(' 10.77.0.100'))).toEqual([]);
    },
    limitMs,
  );

  test(
    'keep a client at its pod, if the Service says so',
    async () => {
      const { apiservers } = await client().greet(serviceVips.ipv4, 88, 30);
      expect(Object.values(apiservers)).toEqual([30]);
    },
    limitMs,
  );

  test(
    'go to its own pods from the node that holds the address, and from a pod there',
    async () => {
      const own = await cluster.seat("VIP holder's host").greet(serviceVips.ipv4, 84, 20);
      expect(own).toMatchObject({ apiservers: { [first.name]: 20 }, errors: {} });
      const answers = await world.askByUdp(first.name, serviceVips.ipv4, 84, 20);
      expect(answers.filter((answer) => !answer.startsWith(first.name))).toEqual([]);
    },
    limitMs,
  );

  test(
    'keep open connections to pods of other nodes that end, and send new ones elsewhere',
    async () => {
      const { held, report } = await client().hold({ host: serviceVips.ipv4, port: 84 }, 60, 6000);
      expect(held).toBe(60);
      const ending = podNames.filter((name) => name !== first.name);
      await world.put(...list('local', { ending }));
      const { sent, echoes, errors } = await report;
      expect({ errors, lost: sent - echoes }).toEqual({ errors: {}, lost: 0 });
      const { apiservers } = await client().greet(serviceVips.ipv4, 84, 30);
      expect(apiservers).toEqual({ [first.name]: 30 });
    },
    limitMs,
  );
});
