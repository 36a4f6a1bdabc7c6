import { expect, test } from '@jest/globals';
import { planSeats } from '../../../../balancer/seats/plan-seats.ts';
import { renderSeats } from '../../../../balancer/seats/render-seats.ts';
import { locateSeatFiles } from '../../../../balancer/seats/seat-files.ts';
import { findInstance, followsFile, listAddresses } from '../../../../lib/keepalived/find.ts';
import { makePool, makeVirtualIp } from '../../../support/fakes/seat-objects.ts';

const subnets = [
  { family: 'ipv4', address: '10.0.9.2', device: 'eth0', prefixLength: 24 },
  { family: 'ipv6', address: 'fd00:9::2', device: 'eth1', prefixLength: 64 },
] as const;

test('both families of a seat are one instance: adverts name the anchor, and nothing that may differ between nodes', () => {
  const { seats } = planSeats(
    {
      pools: [makePool('default', [{ index: 0, anchors: ['10.0.9.10', 'fd00:9::10'], nodes: ['w1', 'w2'] }])],
      virtualIps: [makeVirtualIp('10.0.9.20', 'default/0'), makeVirtualIp('fd00-9--20', 'default/0')],
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
  virtual_router_id 11
  priority 240
  advert_int 0.3
  virtual_ipaddress {
    10.0.9.10/32
  }
  virtual_ipaddress_excluded {
    fd00:9::10/128 dev eth1
    10.0.9.20/32
    fd00:9::20/128 dev eth1
  }
  track_interface {
    eth1
  }
  track_file {
    serving
  }
}
`);
  expect(findInstance(text, 'fd00:9::20')).toEqual({ vrid: 11, priority: 240 });
  expect(followsFile(text, '10.0.9.20', '/run/vipnat-lb/serving')).toBe(true);
  expect(listAddresses(text)).toEqual(['10.0.9.10', 'fd00:9::10', '10.0.9.20', 'fd00:9::20']);
});

test.each([
  ['nobody uses', [], false],
  ['a Service uses the anchor of', ['10.0.9.10'], true],
])('a seat that %s goes to its first node, or stays: %j', (_, names, isNopreempt) => {
  const pools = [makePool('default', [{ index: 0, anchors: ['10.0.9.10'], nodes: ['w2'] }])];
  const virtualIps = names.map((name) => makeVirtualIp(name, 'default/0'));
  const { seats } = planSeats({ pools, virtualIps }, { node: 'w2', subnets });
  const text = renderSeats('w2', seats, locateSeatFiles('/run/vipnat-lb'));
  expect(text.includes('\n  nopreempt\n')).toBe(isNopreempt);
  expect(listAddresses(text)).toEqual(['10.0.9.10']);
});
