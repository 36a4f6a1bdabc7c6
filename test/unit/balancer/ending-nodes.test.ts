/** Nodes from the API to the kernel. */
import { useBalancerWorld } from '../../support/api/balancer-world.ts';
import { test, expect } from '@jest/globals';
import { makeEndpoints } from '../../support/kube-api/service-objects.ts';

const world = useBalancerWorld(() => {
  const endpoints = ['n1', 'n2'].map((nodeName, index) => ({
    ...{ addresses: [`10.244.${index + 1}.2`], nodeName },
    hints: { forZones: [{ name: index === 0 ? 'a' : 'b' }] },
  }));
  world().api.store.put('EndpointSlice', makeEndpoints('web', [{ port: 8080 }], endpoints));
});

const ready = { type: 'Ready', status: 'True', message: 'kubelet is posting ready status' };
const shutsDown = { type: 'Ready', status: 'False', message: 'node is shutting down' };

/** Each with the moment of its heartbeat. */
const putNode = (name: string, condition: object, zone = 'a') => {
  const lastHeartbeatTime = new Date(world().clock.now()).toISOString();
  const labels = { 'topology.kubernetes.io/zone': zone };
  world().api.store.put('Node', {
    metadata: { name, labels },
    status: { conditions: [{ ...condition, lastHeartbeatTime }] },
  });
};

/** The pods of the Service that get new connections. */
const listed = async () => {
  const [slots = ''] = /map slots\/default\/web\/[^}]*/.exec(await world().print()) ?? [];
  return [...new Set(slots.match(/10\.244\.\d\.2/g) ?? [])].sort();
};
const until = (...pods: readonly string[]) =>
  world().until(async () => (await listed()).join() === pods.join(), `${pods.join()} get connections`);

test('this node has the pods of its own zone, also after its label has changed, and of a node that shuts down none', async () => {
  putNode('n1', ready, 'b');
  for (const name of ['n2', 'n3', 'n4']) putNode(name, ready);
  // The list of the Nodes alone is late. Tables wait for it, so the pod of the other zone is never in use.
  world().api.mostInTime = 3;
  world().startBalancer();
  await world().pass(3);
  expect(await listed()).toEqual([]);
  world().api.mostInTime = null;
  await until('10.244.2.2');
  expect(world().readLog().join()).not.toContain('default/web is balanced: 10.77.0.60:80 TCP to 2 endpoints');
  putNode('n1', ready, 'a');
  await until('10.244.1.2');
  putNode('n1', shutsDown);
  await until('10.244.2.2');
  expect(world().view?.draining).toMatchObject([{ service: 'default/web', endpoint: '10.244.1.2' }]);
  // A node that is only silent is not leaving.
  putNode('n2', { ...ready, status: 'Unknown', message: 'Kubelet stopped posting node status.' });
  await world().pass(1);
  expect(await listed()).toEqual(['10.244.2.2']);
  // Nobody else is left.
  putNode('n2', shutsDown);
  await until('10.244.1.2');
  putNode('n2', ready);
  await until('10.244.2.2');
  putNode('n1', ready);
  await until('10.244.1.2');
  expect(world().readLog('info', 'the node n1')).toEqual([
    'the node n1 shuts down: its pods get no new connection',
    'the node n1 stays: its pods get new connections again',
  ]);
});

test('heartbeats of nodes have nothing looked at', async () => {
  putNode('n1', ready);
  world().startBalancer();
  await world().untilPrinted(/10\.77\.0\.60/);
  await world().pass(1);
  let looks = 0;
  for (let round = 0; round < 20; round += 1) {
    const before = world().view;
    putNode(`n${1 + (round % 2)}`, ready);
    await world().pass(0.1, 50);
    if (world().view !== before) looks += 1;
  }
  expect(looks).toBeLessThan(4);
});

test('who may not read Nodes balances without them, and says so once', async () => {
  world().api.forbiddenLabel = '/nodes';
  putNode('n1', shutsDown);
  world().startBalancer();
  await world().untilPrinted(/10\.77\.0\.60/);
  await world().pass(30);
  expect(await listed()).toEqual(['10.244.1.2', '10.244.2.2']);
  expect(world().readLog('warn')).toEqual([
    expect.stringMatching(/pods of a node that shuts down get connections, and zones do not count/),
  ]);
  world().api.forbiddenLabel = null;
  await until('10.244.2.2');
});

test('a node of which nothing can be known any more ends no longer, until it is known again', async () => {
  putNode('n1', shutsDown);
  world().startBalancer();
  await until('10.244.2.2');
  world().api.forbiddenLabel = '/nodes';
  world().api.endWatches();
  await until('10.244.1.2', '10.244.2.2');
  world().api.forbiddenLabel = null;
  await until('10.244.2.2');
});

const [blue, green] = ['10.244.1.2', '10.244.2.2'];
const pod = (address: string, uid: string, terminating = false) => ({
  ...{ addresses: [address], targetRef: { kind: 'Pod', uid } },
  conditions: { ready: !terminating, serving: true, terminating },
});
const put = (service: string, ...pods: readonly ReturnType<typeof pod>[]) => {
  world().api.store.put('EndpointSlice', makeEndpoints(service, [{ port: 8080 }], pods));
};

test.each([
  ['whose label has changed', [], 3],
  ['that another Service has', [[pod(blue, 'b')]], 3],
  ['that ends', [[pod(blue, 'b')], [pod(blue, 'b', true)]], 3],
  ['that another Service had, and that has ended', [[pod(blue, 'b', true)], []], 0],
  ['whose address another pod has', [[pod(blue, 'another')]], 0],
])('of a pod %s, and that its Service has not any more, open connections stay', async (...row) => {
  const [, others, expected] = row;
  put('web', pod(blue, 'b'), pod(green, 'g'));
  world().startBalancer();
  await until(blue, green);
  world().connections = Array.from({ length: 3 }, () => ({
    ...{ protocol: 'tcp', vip: { family: 'ipv4', address: '10.77.0.60', port: 80 } },
    backend: { family: 'ipv4', address: blue, port: 8080 },
  }));
  put('web', pod(green, 'g'));
  await until(green);
  for (const pods of others) {
    await world().pass(1);
    put('blue', ...pods);
  }
  await world().pass(12);
  expect(world().connections).toHaveLength(expected);
  const listEnding = () => world().view?.draining.map(({ connections }) => connections);
  expect(listEnding()).toEqual(expected === 0 ? [] : [expected]);
  // Nobody is connected any more: it is of no interest.
  world().connections = [];
  await world().pass(12);
  expect(listEnding()).toEqual([]);
});
