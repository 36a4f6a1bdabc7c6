import { expect, test } from '@jest/globals';
import { planSeats } from '../../../../balancer/seats/plan-seats.ts';
import { renderSeats } from '../../../../balancer/seats/render-seats.ts';
import { locateSeatFiles } from '../../../../lib/keepalived/seat-files.ts';
import { findInstance, followsFile, listAddresses } from '../../../../lib/keepalived/find.ts';
import { makePool, makeSeat, makeVirtualIp } from '../../../support/fakes/seat-objects.ts';

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
  script_user root
  vrrp_notify_fifo /run/vipnat-lb/notify
}

# vipnat balancer writes this file. 0: this node can serve. Without a balancer it stays 0.
track_file serving {
  file "/run/vipnat-lb/serving"
  weight 0
  init_file 0
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
  track_file {
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
  track_file {
    serving
  }
}
`);
  expect(findInstance(text, '10.0.9.20')).toEqual({ vrid: 1, priority: 240 });
  expect(followsFile(text, '10.0.9.20', '/run/vipnat-lb/serving')).toBe(true);
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
