import {
  listSubnets,
  type HostAddress,
  findInstance,
  listAddresses,
} from '../../../../lib/keepalived/read.ts';
import { makeSeat, makeVirtualIp, makePool } from '../../../support/fakes/seat-objects.ts';
import {
  planSeats,
  type SeatsPlan,
  listAlone,
  placeAddress,
  renderSeats,
} from '../../../../balancer/seats/plan.ts';
import { describe, test, expect } from '@jest/globals';
import { parseAddress } from '../../../../lib/net.ts';
import { locateSeatFiles } from '../../../../lib/keepalived/write.ts';

const host = {
  node: 'w2',
  subnets: listSubnets([
    { family: 'ipv4', address: '127.0.0.1', device: 'lo', prefixLength: 8 },
    { family: 'ipv4', address: '10.0.9.2', device: 'eth0', prefixLength: 24 },
    { family: 'ipv6', address: 'fd00:9::2', device: 'eth0', prefixLength: 64 },
    { family: 'ipv4', address: '192.0.2.2', device: 'eth1', prefixLength: 24 },
    // keepalived holds it.
    { family: 'ipv4', address: '10.0.9.20', device: 'eth0', prefixLength: 32 },
  ]),
};

const nodes = ['w1', 'w2', 'w3'];
const seat = (index: number, network: string) => makeSeat(index, network, nodes);
const plan = (
  pools: Parameters<typeof planSeats>[0]['pools'],
  ...virtualIps: ReturnType<typeof makeVirtualIp>[]
) => planSeats({ pools, virtualIps }, host);

/** By names: what tests compare. */
const show = ({ seats, problems }: SeatsPlan) => ({
  seats: seats.map(({ name, anchor, device, vrid, place, advertMs, addresses }) => ({
    ...{ name, vrid, place, advertMs, anchor: anchor.text, device },
    addresses: addresses.map(({ address, device }) => `${address.text} ${device}`),
  })),
  problems,
});

describe('the seats of a node', () => {
  test('are those that name it, with its place in each, and what Services have there', () => {
    const pool = makePool('default', [
      seat(0, '10.0.9.10'),
      { ...seat(1, 'fd00:9::10'), nodes: ['w2', 'w1'] },
      { ...seat(2, '10.0.9.10'), nodes: ['w1', 'w3'] },
    ]);
    const virtualIps = [
      makeVirtualIp('10.0.9.21', 'default/0'),
      makeVirtualIp('10.0.9.20', 'default/0', { services: 2 }),
      makeVirtualIp('192.0.2.20', 'default/0'),
      makeVirtualIp('fd00-9--20', 'default/1'),
      makeVirtualIp('10.0.9.23', 'default/2'),
    ];
    expect(show(plan([pool], ...virtualIps))).toEqual({
      seats: [
        {
          ...{ name: 'default/0', vrid: 1, place: 1, advertMs: 300, anchor: '169.254.0.1', device: 'eth0' },
          addresses: ['10.0.9.20 eth0', '10.0.9.21 eth0', '192.0.2.20 eth1'],
        },
        {
          ...{ name: 'default/1', vrid: 2, place: 0, advertMs: 300, anchor: 'fe80::2', device: 'eth0' },
          addresses: ['fd00:9::20 eth0'],
        },
      ],
      problems: [],
    });
  });

  test('have no address that waits, and none that another host has', () => {
    const pool = makePool('default', [seat(0, '10.0.9.10')]);
    const waiting = makeVirtualIp('10.0.9.20', 'default/0', { services: 0 });
    const others = makeVirtualIp('10.0.9.21', 'default/0', { isOthers: true });
    expect(plan([pool], waiting, others)).toMatchObject({ seats: [{ addresses: [] }], problems: [] });
  });

  test.each([
    ['10s', '  garp_master_refresh 40\n', 12_000],
    ['1m30.4s', '  garp_master_refresh 90\n'],
    ['1s', '  garp_master_refresh 10\n'],
    ['2h', '  garp_master_refresh 3600\n'],
  ])('take the pool’s interface, adverts and announcements: %s', (garpInterval, line, count = 0) => {
    const spec = { interface: 'eth1', advert: '1.204s', garpInterval };
    const planned = plan([makePool('default', [seat(0, '198.51.100.10')], spec)]);
    expect(show(planned).seats).toMatchObject([{ device: 'eth1', advertMs: 1200 }]);
    const place = { address: { family: 'ipv4', text: '198.51.100.20' }, device: 'eth1' } as const;
    const all = planned.seats.map((it) => ({ ...it, addresses: Array.from({ length: count }, () => place) }));
    expect(renderSeats('w2', all, locateSeatFiles('/run'))).toContain(`1.2\n${line}  virtual_ipaddress`);
  });

  test.each([
    ['a subnet here', '198.51.100.10', {}, '198.51.100.10 is in no subnet of this host (it has eth0, eth1)'],
    [
      'an interface with such addresses',
      'fd01::1',
      { interface: 'eth1' },
      'fd01::1 needs the interface eth1, which has no IPv6 address here',
    ],
    [
      'an interface that is there',
      '10.0.9.10',
      { interface: 'eth9 {' },
      '10.0.9.10 needs the interface eth9 {, which has no IPv4 address here',
    ],
  ])('need %s', (_, network, spec, problem) => {
    const found = plan([
      makePool('default', [seat(0, network)], spec),
      makePool('other', [seat(1, '192.0.2.10')]),
    ]);
    expect(found.seats.map(({ name }) => name)).toEqual(['other/1']);
    expect(found.problems).toEqual([expect.stringContaining(`does not hold seat default/0: ${problem}`)]);
    // A seat that names sixteen others may name this node later.
    const others = Array.from({ length: 16 }, (_, at) => `other-${at}`);
    const look = (count: number) =>
      plan([makePool('default', [makeSeat(0, network, others.slice(0, count))], spec)]);
    expect(look(16)).toEqual({ seats: [], problems: [], unheld: found.unheld });
    expect(look(15).unheld).toEqual({});
  });

  test.each([
    { index: 0.5 },
    { anchor: '10.0.9.2' },
    { anchor: '169.254.0.0' },
    { anchor: 'fe80::1' },
    { anchor: '' },
    { vrid: 0 },
    { vrid: 256 },
    { network: '' },
  ])('need an entry that can be read: not %j', (parts) => {
    expect(
      plan([makePool('a', [{ ...seat(0, '10.0.9.10'), ...parts }, seat(1, '10.0.9.10')])]),
    ).toMatchObject({
      seats: [{ name: 'a/1' }],
      problems: [expect.stringContaining('its entry in the status of its pool cannot be read')],
    });
  });

  test.each([
    ['name', 'a', { index: 0 }],
    ['anchor 169.254.0.1', 'b', { vrid: 9 }],
    ['virtual_router_id 1', 'b', { anchor: '169.254.0.9' }],
  ])('need their own %s', (what, other, parts) => {
    const twice = { ...seat(0, '10.0.9.10'), ...parts };
    const pools =
      other === 'a'
        ? [makePool('a', [seat(0, '10.0.9.10'), { ...twice, vrid: 9, anchor: '169.254.0.9' }])]
        : [makePool('b', [twice]), makePool('a', [seat(0, '10.0.9.10')])];
    expect(plan(pools)).toMatchObject({
      seats: [{ name: 'a/0', vrid: 1 }],
      problems: [`this node does not hold seat ${other}/0: seat a/0 has the ${what}, too`],
    });
  });

  describe('of a host whose own address names no subnet', () => {
    const placed = [
      ['10.0.9.2', 'eth0', 32],
      ['10.0.9.20', 'eth0', 32],
      ['fd00:9::2', 'eth0', 128],
      ['10.96.0.1', 'kube-ipvs0', 32],
      ['192.0.2.2', 'eth1', 24],
      ['192.0.2.9', 'eth1', 32],
    ] as const;
    const addresses = placed.map(([address, device, prefixLength]): HostAddress => {
      const family = address.includes(':') ? 'ipv6' : 'ipv4';
      return { family, address, device, prefixLength };
    });
    const network = (address: string, prefixLength: number, device: string): HostAddress => ({
      ...{ family: address.includes(':') ? 'ipv6' : 'ipv4', address, prefixLength, device },
    });
    const alone = listAlone(addresses, new Set(['10.0.9.20']));
    const read = (text: string, interface_ = 'auto', ...onLink: readonly HostAddress[]) => {
      const address = parseAddress(text);
      if (address === null) throw new Error(text);
      const place = placeAddress(address, interface_, { subnets: listSubnets(addresses), alone, onLink });
      return typeof place === 'string' ? place : place.device;
    };

    test('are where a route leads without a router: the most specific one', () => {
      expect(alone.map(({ address }) => address)).toEqual(['10.0.9.2', 'fd00:9::2', '10.96.0.1']);
      const [small, large] = [network('10.0.9.0', 24, 'eth0'), network('10.0.0.0', 8, 'eth2')];
      expect(read('10.0.9.20', 'auto', large, small)).toBe('eth0');
      expect(read('10.0.8.20', 'auto', large, small)).toBe('eth2');
      expect(read('fd00:9::20', 'auto', small, network('fd00:9::', 64, 'eth0'))).toBe('eth0');
      expect(read('10.0.9.20', 'auto', small, { ...small, device: 'eth1' })).toBe(
        'is in the subnets of several interfaces (eth0, eth1)',
      );
      // Its subnet decides where the host has an address in one.
      expect(read('192.0.2.20', 'auto', network('192.0.2.0', 28, 'eth0'))).toBe('eth1');
      expect(read('10.0.9.255', 'auto', small)).toBe('is the broadcast address of the subnet of eth0');
    });

    test('are on the interface that the pool names, if that has an own address', () => {
      expect([read('198.51.100.7', 'eth0'), read('fd00:1::7', 'eth0')]).toEqual(['eth0', 'eth0']);
      expect(read('fd00:1::7', 'eth1')).toBe('needs the interface eth1, which has no IPv6 address here');
      expect(read('10.0.9.2', 'eth0')).toBe('is an address of this host itself');
      expect(read('198.51.100.7')).toBe('is in no subnet of this host (it has eth1)');
      expect(placeAddress({ family: 'ipv4', text: '10.0.9.20' }, 'auto', { subnets: [] })).toBe(
        'is in no subnet of this host (it has none: spec.interface of the pool can name an interface)',
      );
    });
  });

  test('may have one virtual_router_id on two interfaces', () => {
    const pools = [
      makePool('a', [seat(0, '10.0.9.10')]),
      makePool('b', [{ ...seat(0, '192.0.2.10'), anchor: '169.254.0.9' }]),
    ];
    expect(plan(pools)).toMatchObject({ seats: [{ vrid: 1 }, { vrid: 1 }], problems: [] });
  });

  test('name addresses that are left out once for each seat', () => {
    const pool = makePool('default', [seat(0, '10.0.9.10'), seat(1, '10.0.9.10')]);
    const virtualIps = ['10.0.9.2', '10.0.8.1', '10.0.9.0', '10.0.9.255', 'fd00-9--20', 'not-an-address'].map(
      (one) => makeVirtualIp(one, 'default/0'),
    );
    expect(plan([pool], ...virtualIps, makeVirtualIp('10.0.9.20', 'default/0'))).toMatchObject({
      seats: [{ addresses: [{ address: { text: '10.0.9.20' } }] }, { addresses: [] }],
      problems: [
        'this node does not hold 6 of the addresses of seat default/0: 10.0.8.1 is in no subnet of this host (it has eth0, eth1)',
      ],
      unheld: {
        '10.0.8.1': '10.0.8.1 is in no subnet of this host (it has eth0, eth1)',
        '10.0.9.0': '10.0.9.0 is the address of the subnet of eth0 itself',
        '10.0.9.2': '10.0.9.2 is an address of this host itself',
        '10.0.9.255': '10.0.9.255 is the broadcast address of the subnet of eth0',
        'fd00:9::20': 'fd00:9::20 is of another family than its seat',
        'not-an-address': 'not-an-address is not an address',
      },
    });
  });

  test('of 1,000 addresses that cannot be held, twenty are named to others', () => {
    const names = Array.from({ length: 1000 }, (_, at) => `10.1.${Math.floor(at / 250)}.${at % 250}`);
    const virtualIps = names.map((one) => makeVirtualIp(one, 'default/0'));
    const { unheld } = plan([makePool('default', [seat(0, '10.0.9.10')])], ...virtualIps);
    expect(Object.keys(unheld)).toHaveLength(20);
  });

  test('hold an address once, whatever the API says', () => {
    const pool = makePool('default', [seat(0, '10.0.9.10'), seat(1, '10.0.9.10')]);
    const twice = [makeVirtualIp('10.0.9.20', 'default/0'), makeVirtualIp('10.0.9.20', 'default/1')];
    expect(show(plan([pool], ...twice)).seats).toMatchObject([
      { addresses: ['10.0.9.20 eth0'] },
      { addresses: [] },
    ]);
  });
});

const subnets = [
  { family: 'ipv4', address: '10.0.9.2', device: 'eth0', prefixLength: 24 },
  { family: 'ipv4', address: '10.0.8.2', device: 'eth1', prefixLength: 24 },
  { family: 'ipv6', address: 'fd00:9::2', device: 'eth1', prefixLength: 64 },
] as const;

test('adverts name the anchor, which is announced to nobody, and nothing that may differ between nodes', () => {
  const { seats } = planSeats(
    {
      pools: [
        makePool('default', [
          makeSeat(0, '10.0.9.10', ['w1', 'w2']),
          { ...makeSeat(1, 'fd00:9::10', ['w2']), anchor: 'fe80::fe' },
        ]),
      ],
      virtualIps: [
        makeVirtualIp('10.0.9.20', 'default/0'),
        makeVirtualIp('10.0.8.20', 'default/0'),
        makeVirtualIp('fd00-9--20', 'default/1'),
      ],
    },
    { node: 'w2', subnets },
  );
  const text = renderSeats('w2', seats, locateSeatFiles('/run/vipnat-lb'));
  expect(text).toBe(`# keepalived.conf by vipnat balancer
global_defs {
  router_id w2
  vrrp_version 3
  vrrp_garp_master_refresh 60
  reload_check_config /run/vipnat-lb/keepalived.check
  enable_script_security
  script_user root
  vrrp_notify_fifo /run/vipnat-lb/notify
}

# vipnat balancer writes this script. It fails for a while after a balancer has ended or hangs that a Service needs.
vrrp_script serving {
  script "/usr/bin/env sh -c 'if test -e /run/vipnat-lb/check-balancer; then exec sh /run/vipnat-lb/check-balancer; fi'"
  interval 5
  timeout 60
  fall 2
  rise 1
}

vrrp_instance seat-default/0 {
  state BACKUP
  nopreempt
  interface eth0
  virtual_router_id 1
  priority 240
  advert_int 0.3
  virtual_ipaddress {
    169.254.0.1/32 dev lo scope host no_track
  }
  virtual_ipaddress_excluded {
    10.0.8.20/32 dev eth1
    10.0.9.20/32
  }
  track_interface {
    eth1
  }
  track_script {
    serving
  }
}

vrrp_instance seat-default/1 {
  state BACKUP
  nopreempt
  interface eth1
  virtual_router_id 2
  priority 250
  advert_int 0.3
  virtual_ipaddress {
    fe80::fe/128 dev lo no_track
  }
  virtual_ipaddress_excluded {
    fd00:9::20/128
  }
  track_script {
    serving
  }
}
`);
  expect(findInstance(text, '10.0.9.20')).toEqual({ vrid: 1, priority: 240 });
  expect(listAddresses(text)).toEqual(['169.254.0.1', '10.0.8.20', '10.0.9.20', 'fe80::fe', 'fd00:9::20']);
});

test.each([
  ['nobody uses', [], false],
  ['a Service uses', ['10.0.9.20'], true],
])('a seat that %s goes to its first node, or stays: %j', (_, names, isNopreempt) => {
  const pools = [makePool('default', [makeSeat(0, '10.0.9.10', ['w2'])])];
  const virtualIps = names.map((name) => makeVirtualIp(name, 'default/0'));
  const { seats } = planSeats({ pools, virtualIps }, { node: 'w2', subnets });
  const text = renderSeats('w2', seats, locateSeatFiles('/run/vipnat-lb'));
  expect(text.includes('\n  nopreempt\n')).toBe(isNopreempt);
  expect(listAddresses(text)).toEqual(['169.254.0.1', ...names]);
});
