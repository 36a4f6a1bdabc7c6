import { describe, expect, test } from '@jest/globals';
import { isFull } from '../../support/jest/extent.ts';
import { type Agent, sleep, waitUntil } from '../../support/host/vipnat.ts';
import { makeLoadBalancer } from '../../support/kube-api/service-objects.ts';
import { type ApiChange, pods } from './service-world.ts';
import { balanced, listWeb, useWebService, vip } from './web-service.ts';

const limitMs = 180_000;
const web = useWebService();
const [first = { name: '', node: '', ipv4: '' }] = pods;

/** The node of the first pod, with what its kubelet says. */
const sayOfNode = (status: string, message: string): ApiChange => [
  'Node',
  { metadata: { name: first.node }, status: { conditions: [{ type: 'Ready', status, message }] } },
];

const allowSeconds = (seconds: number): ApiChange => [
  'Service',
  makeLoadBalancer('web', [{ port: 80 }], { annotations: { 'vipnat.io/drain-timeout': `${seconds}s` } }),
];

/** One holds connections, and the other opens new ones. */
const client = () => web.cluster.seat('outside client');
const newcomer = () => web.cluster.seat('pod on a worker');

/** What it answers ends them, and says why some did not live until then. */
async function hold(count: number) {
  const { held, report } = await client().hold({ host: vip, port: 80 }, count, limitMs);
  expect(held).toBe(count);
  return async () => {
    client().settle();
    return (await report).errors;
  };
}

const isCut =
  /connections of 10\.77\.0\.60:80 to 10\.244\.1\.2:6443, whose drain timeout is over, are forgotten/;

const listen = '127.0.0.1:10269';

/** How many open connections m1's balancer says that pods which drain have left. */
async function readLeft(): Promise<number> {
  const text = await web.shell('m1', `curl -s http://${listen}/metrics`);
  return Number(/^vipnat_balancer_draining_connections (\d+)$/m.exec(text)?.[1]);
}

describe('a pod that ends', () => {
  test('gets no new connection, keeps its open ones for the drain timeout, and then they are reset', async () => {
    await web.put(allowSeconds(30));
    const balancer = await web.startBalancer(balanced, { words: ['--listen', listen] });
    const endConnections = await hold(40);
    await web.put(...listWeb({ ending: [0] }));
    await balancer.waitForLine(/10\.77\.0\.60:80 TCP to 2 endpoints/);
    const { apiservers } = await newcomer().greet(vip, 80, 60);
    expect(Object.keys(apiservers)).not.toContain(first.name);
    await waitUntil(async () => (await readLeft()) > 0, 'nobody says how many connections are left');
    await balancer.waitForLine(isCut);
    expect(timeBetween(balancer, / TCP to 2 endpoints/, isCut)).toBeGreaterThanOrEqual(29_900);
    const errors = await endConnections();
    expect(Object.keys(errors)).toEqual(['ECONNRESET']);
    expect(errors['ECONNRESET']).toBeLessThan(40);
    await waitUntil(async () => (await readLeft()) === 0, 'connections are said to be left');
  });

  test('has no connection left that an earlier term of the node has seen, also when the address is back', async () => {
    await web.startBalancer(balanced, { words: ['--listen', listen] });
    const endConnections = await hold(40);
    await web.put(...listWeb({ ending: [0] }));
    await waitUntil(async () => (await readLeft()) > 5, 'nobody says how many connections are left');
    for (const [from, to] of ['m1 m2', 'm2 m1'].map((way) => way.split(' '))) {
      await web.shell(from ?? '', `ip addr del ${vip}/32 dev eth0`);
      await web.shell(to ?? '', `ip addr add ${vip}/32 dev eth0`);
      await web.shell('client', 'ip neigh flush dev eth0');
      await waitUntil(
        async () => (await readLeft()) === 0,
        `${from} has connections left that are elsewhere`,
      );
    }
    expect(await endConnections()).toEqual({ ECONNRESET: 40 });
  });

  if (isFull)
    test('on a node that shuts down loses no open connection, and gets no new one until the node is back', async () => {
      await web.put(...listWeb(), sayOfNode('True', 'kubelet is posting ready status'));
      const balancer = await web.startBalancer(balanced);
      const endConnections = await hold(40);
      await web.put(sayOfNode('False', 'node is shutting down'));
      await balancer.waitForLine(/10\.77\.0\.60:80 TCP to 2 endpoints/);
      const { apiservers, errors } = await newcomer().greet(vip, 80, 60);
      expect([Object.keys(apiservers).includes(first.name), errors]).toEqual([false, {}]);
      await web.put(sayOfNode('True', 'kubelet is posting ready status'));
      await waitUntil(
        async () => first.name in (await newcomer().greet(vip, 80, 60)).apiservers,
        'the pod gets no connection',
      );
      expect(await endConnections()).toEqual({});
    });

  if (isFull) {
    test('serves on if no other pod is left, and loses no connection by any timeout until one comes', async () => {
      await web.put(allowSeconds(1), ...listWeb({ ending: [0, 1, 2] }));
      const balancer = await web.startBalancer(balanced);
      const endConnections = await hold(40);
      await sleep(3000);
      await expectNoCut(balancer);
      await web.put(...listWeb({ ending: [0, 1] }));
      await balancer.waitForLine(isCut);
      expect(Object.keys(await endConnections())).toEqual(['ECONNRESET']);
    });

    test('has its time anew when the balancer is killed and started again', async () => {
      await web.put(allowSeconds(6));
      await web.startBalancer(balanced);
      const endConnections = await hold(40);
      await web.put(...listWeb({ ending: [0] }));
      await sleep(4000);
      await web.stopBalancers('SIGKILL');
      const balancer = await web.startBalancer(/10\.77\.0\.60:80 TCP to 2 endpoints/);
      await balancer.waitForLine(isCut);
      expect(timeBetween(balancer, / TCP to 2 endpoints/, isCut)).toBeGreaterThanOrEqual(5900);
      expect(Object.keys(await endConnections())).toEqual(['ECONNRESET']);
    });
  }
});

/** Milliseconds between two lines of its log, by its own clock, which has no date. */
function timeBetween(balancer: Agent, first: RegExp, second: RegExp): number {
  const [from = NaN, to = NaN] = [first, second].map((pattern) =>
    Date.parse(`1970-01-01T${balancer.listLines(pattern)[0]?.slice(0, 12) ?? ''}Z`),
  );
  return (to - from + dayMs) % dayMs;
}

const dayMs = 86_400_000;

async function expectNoCut(balancer: Agent): Promise<void> {
  expect(balancer.listLines(/are forgotten/)).toEqual([]);
  expect((await newcomer().greet(vip, 80, 30)).errors).toEqual({});
}
