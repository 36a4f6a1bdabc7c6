import { describe, expect, test } from '@jest/globals';
import { type SeatName, seatNames } from '../../support/network/cluster.ts';
import { vipnat } from '../../support/host/vipnat.ts';
import { makeLoadBalancer } from '../../support/kube-api/service-objects.ts';
import {
  type ApiChange,
  giveVips,
  overPods,
  podPort,
  pods,
  serviceVips,
  tcpAndUdp,
  useServices,
} from './service-world.ts';

const { ipv4: vip4, ipv6: vip6 } = serviceVips;
const podNames = pods.map(({ name }) => name).sort();
const [first = { name: '', node: '', ipv4: '', ipv6: '' }] = pods;

/** A Service at a port of the addresses, over all pods: port `PORT` for TCP, and the same for UDP. */
function make(name: string, port: number, spec = {}, annotations = {}): ApiChange[] {
  const service = makeLoadBalancer(name, tcpAndUdp(port), { spec, annotations });
  return [['Service', service], ...overPods(name, tcpAndUdp(podPort))];
}

/** How long to wait where nothing shall answer. */
const lostMs = 1000;

/** Clients that the Service `ranges` lets come. */
const allowed = '10.244.0.0/16';

describe('Services', () => {
  const world = useServices('all tests', async () => {
    await world.put(
      ...make('web', 80),
      ...make('rr', 81, {}, { 'vipnat.io/method': 'rr' }),
      ...make('hash', 82, {}, { 'lb.zdns.cn/method': 'hash' }),
      ...make('kept', 83, { sessionAffinity: 'ClientIP' }),
      ...make('ranges', 85, { loadBalancerSourceRanges: [allowed] }),
      ['Service', makeLoadBalancer('none', [{ port: 86 }, { port: 86, name: 'u', protocol: 'UDP' }])],
      ...giveVips('web', 'rr', 'hash', 'kept', 'ranges', 'none'),
    );
    // The log names the first five, in the order of their names.
    await world.startBalancer(/default\/rr is balanced: 10\.77\.0\.60:81 TCP to 3 endpoints/);
  });

  const { cluster } = world;

  const ask = async (seat: SeatName, host: string, port: number, count = 60) =>
    await cluster.seat(seat).greet(host, port, count);

  const questions = seatNames.flatMap((seat) => [vip4, vip6].map((host) => [seat, host] as const));
  test.each(questions)('are balanced over all pods, for %s at %s', async (seat, host) => {
    const { apiservers, errors } = await ask(seat, host, 80);
    expect([errors, Object.keys(apiservers).sort()]).toEqual([{}, podNames]);
  });

  test('are balanced in turn: equal shares', async () => {
    const { apiservers } = await ask('outside client', vip4, 81);
    expect(Object.values(apiservers)).toEqual([20, 20, 20]);
  });

  test.each([
    ['by the hash of its address', 82],
    ['for the time of its affinity', 83],
  ])('keep a client at its pod %s', async (_, port) => {
    for (const host of [vip4, vip6]) {
      const { apiservers } = await ask('outside client', host, port, 20);
      expect(Object.values(apiservers)).toEqual([20]);
    }
  });

  test('also serve a pod that is sent to itself', async () => {
    const answers = await world.askByUdp(first.name, vip4, 80, 60);
    expect(answers.filter((answer) => !answer.startsWith('pod-'))).toEqual([]);
    expect(answers.some((answer) => answer.startsWith(first.name))).toBe(true);
  });

  test('are balanced for UDP', async () => {
    for (const host of [vip4, vip6]) {
      const answers = await world.askByUdp('client', host, 81, 30);
      const shares = podNames.map((name) => answers.filter((answer) => answer.startsWith(`${name} `)).length);
      expect(shares).toEqual([10, 10, 10]);
    }
  });

  test('let only those come that the source ranges name, by TCP and UDP', async () => {
    expect(await world.askByUdp('client', vip4, 85, 3, lostMs)).toEqual(['lost', 'lost', 'lost']);
    for (const host of [vip4, vip6]) {
      const { apiservers } = await cluster.seat('outside client').greet(host, 85, 3, lostMs);
      expect(apiservers).toEqual({});
    }
    expect((await ask('pod on a worker', vip4, 85, 10)).errors).toEqual({});
    expect(await world.askByUdp('pod-worker', vip4, 85, 3)).not.toContain('lost');
  });

  test('without a pod are refused at once', async () => {
    for (const seat of ['outside client', "VIP holder's host"] as const)
      expect(Object.keys((await ask(seat, vip4, 86, 3)).errors).join()).toMatch(/ECONNREFUSED/);
    expect(await world.askByUdp('client', vip4, 86, 1)).toEqual(['refused']);
  });

  test('lose their tables to cleanup, which names them', async () => {
    await world.stopBalancers();
    const { stderr, exitCode } = await vipnat(cluster, 'm1', ['cleanup']);
    expect(exitCode).toBe(0);
    expect(stderr).toContain('removed the table (ip vipnat-lb, nft)');
    expect(stderr).toContain('removed the table (ip6 vipnat-lb, nft)');
    expect(await world.shell('m1', 'nft list tables')).toBe('');
  });
});
