import type { LocalRoutes } from '../../../../lib/kernel/port.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { planSourceRoutes, planRouteRemoval } from '../../../../agent/local-clients.ts';
import { describe, test, expect } from '@jest/globals';

type Address = LocalRoutes['addresses'][number];

const vip = '10.0.0.50';
const wishes = {
  vips: [toEndpoint('10.0.0.50:6443'), toEndpoint('10.0.0.50:443')],
  localClients: 'keep',
} as const;

const has = (address: string, prefixLength = 24, device = 'eth0', isSource = true): Address => ({
  family: address.includes(':') ? 'ipv6' : 'ipv4',
  address,
  device,
  prefixLength,
  isSource,
});

/** A host with these addresses, whose kernel has the routes to them, after those of others. */
function see(
  addresses: readonly Address[],
  before: LocalRoutes['routes'] = [],
  usualSource: string | null = null,
) {
  const kernels = addresses
    .filter(({ family }) => family === 'ipv4')
    .map(({ address, device }) => ({ address, device, source: address, isOwn: false }));
  return { addresses, routes: [...before, ...kernels], usualSource };
}

const ours = (source: string, address = vip, device = 'eth0') => ({ address, device, source, isOwn: true });
const summarize = (seen: LocalRoutes, given: Parameters<typeof planSourceRoutes>[1] = wishes) =>
  planSourceRoutes(seen, given).map(
    ({ kind, route: { address, device, source } }) => `${kind} ${address} ${device} ${source}`,
  );

const held = has(vip, 32);

describe('the source of own connections to a VIP', () => {
  test.each<[string, LocalRoutes, string | null]>([
    ['is the one address beside it', see([has('10.0.0.11'), held]), '10.0.0.11'],
    ['is in its subnet', see([has('192.168.0.1'), has('10.0.0.11'), held]), '10.0.0.11'],
    ['is the first in its subnet', see([has('10.0.0.11'), has('10.0.0.12'), held]), '10.0.0.11'],
    [
      'has a subnet there: other /32 are virtual',
      see([has('10.0.0.60', 32), has('192.168.0.1'), held]),
      '192.168.0.1',
    ],
    ['is on its interface', see([has('172.16.0.1', 24, 'eth1'), has('192.168.0.1'), held]), '192.168.0.1'],
    [
      'is the usual one, where the VIP is on lo',
      see([has('10.244.0.1', 24, 'cni0'), has('10.0.0.11'), has(vip, 32, 'lo')], [], '10.0.0.11'),
      '10.0.0.11',
    ],
    [
      'is a /32 where a cloud gives no other',
      see([has('10.0.0.11', 32), held], [], '10.0.0.11'),
      '10.0.0.11',
    ],
    [
      'is none that leads nowhere',
      see([has('127.0.0.1', 8, 'lo', false), has('169.254.0.1', 16, 'eth0', false), held]),
      null,
    ],
    [
      'is none on a host whose only other address is elsewhere',
      see([has('10.244.0.1', 24, 'cni0'), held]),
      null,
    ],
  ])('%s', (_, seen, source) => {
    const device = seen.addresses.find(({ address }) => address === vip)?.device ?? '';
    expect(summarize(seen)).toEqual(source === null ? [] : [`add ${vip} ${device} ${source}`]);
  });

  test('is no other VIP, whichever of them are here', () => {
    const two = { ...wishes, vips: [...wishes.vips, toEndpoint('10.0.0.51:6443')] };
    expect(summarize(see([has('10.0.0.51'), has('10.0.0.11'), held]), two)).toEqual([
      `add ${vip} eth0 10.0.0.11`,
      'add 10.0.0.51 eth0 10.0.0.11',
    ]);
  });

  test('is left as it is where the kernel or somebody else names one that is here', () => {
    const byKernel = { address: vip, device: 'eth0', source: '10.0.0.11', isOwn: false };
    expect(summarize(see([has('10.0.0.11'), held], [byKernel]))).toEqual([]);
    expect(summarize(see([has('10.0.0.11'), held], [ours('10.0.0.11'), byKernel]))).toEqual([
      `remove ${vip} eth0 10.0.0.11`,
    ]);
    const gone = { ...byKernel, source: '10.0.0.99' };
    expect(summarize(see([has('10.0.0.11'), held], [gone]))).toEqual([`add ${vip} eth0 10.0.0.11`]);
  });

  test('is nobody’s matter over IPv6, where no route can stand before the kernel’s', () => {
    const vips = [toEndpoint('[fd00::50]:6443')];
    expect(summarize(see([has('fd00::11', 64), has('fd00::50', 128)]), { ...wishes, vips })).toEqual([]);
  });
});

describe('a route of ours', () => {
  const host = [has('10.0.0.11'), held];

  test('that is as it should be stays', () => {
    expect(summarize(see(host, [ours('10.0.0.11')]))).toEqual([]);
  });

  test.each<[string, LocalRoutes]>([
    ['whose VIP is elsewhere', see([has('10.0.0.11')], [ours('10.0.0.11')])],
    [
      'of a VIP that nobody names any more',
      see([has('10.0.0.11'), has('10.0.0.51')], [ours('10.0.0.11', '10.0.0.51')]),
    ],
  ])('%s goes', (_, seen) => {
    expect(planSourceRoutes(seen, wishes).map(({ kind }) => kind)).toEqual(['remove']);
  });

  test('whose source or interface is wrong goes after the right one came', () => {
    const right = `add ${vip} eth0 10.0.0.11`;
    expect(summarize(see(host, [ours('10.0.0.99')]))).toEqual([right, `remove ${vip} eth0 10.0.0.99`]);
    expect(summarize(see(host, [ours('10.0.0.11', vip, 'eth1')]))).toEqual([
      right,
      `remove ${vip} eth1 10.0.0.11`,
    ]);
  });

  test('whose source left goes alone where there is no other: the kernel’s own carries the VIP', () => {
    const [change, ...more] = planSourceRoutes(see([held], [ours('10.0.0.11')]), wishes);
    expect(more).toEqual([]);
    expect(change).toMatchObject({ kind: 'remove', reason: '10.0.0.11 is no longer on this host' });
  });

  test('is not wanted with --local-clients leave', () => {
    const leave = { ...wishes, localClients: 'leave' } as const;
    expect(summarize(see(host, [ours('10.0.0.11')]), leave)).toEqual([`remove ${vip} eth0 10.0.0.11`]);
    expect(summarize(see(host), leave)).toEqual([]);
  });

  test('is removed by cleanup, of one VIP or of all', () => {
    const seen = see(host, [ours('10.0.0.11'), ours('10.0.0.11', '10.0.0.51')]);
    const list = (vips: Parameters<typeof planRouteRemoval>[1]) =>
      planRouteRemoval(seen, vips).map(({ route: { address } }) => address);
    expect(list(null)).toEqual([vip, '10.0.0.51']);
    expect(list([toEndpoint('10.0.0.51:6443')])).toEqual(['10.0.0.51']);
  });
});

test('the commands are those of iproute2, and name the route that is meant', () => {
  const commands = (seen: LocalRoutes) => planSourceRoutes(seen, wishes).map(({ command }) => command);
  expect(commands(see([has('10.0.0.11'), held]))).toEqual([
    'ip route prepend local 10.0.0.50 dev eth0 table local proto 118 scope host src 10.0.0.11',
  ]);
  expect(commands(see([has('10.0.0.11')], [ours('10.0.0.11')]))).toEqual([
    'ip route del local 10.0.0.50 dev eth0 table local proto 118 scope host src 10.0.0.11',
  ]);
});
