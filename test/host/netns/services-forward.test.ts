import { describe, expect, test } from '@jest/globals';
import { isFull } from '../../support/jest/extent.ts';
import { vipnat } from '../../support/host/vipnat.ts';
import { makeLoadBalancer } from '../../support/kube-api/service-objects.ts';
import { giveVips, overPods, podPort, pods, serviceVips, useServices } from './service-world.ts';

const { ipv4, ipv6 } = serviceVips;
const balanced = /default\/web is balanced: 10\.77\.0\.60:80 TCP to \d endpoints/;

/** How a host drops what is forwarded, as its firewall does, and what takes that back. */
const firewalls = [
  ['nft', 'iptables-nft -P FORWARD DROP; ip6tables-nft -P FORWARD DROP'],
  ['legacy', 'iptables-legacy -P FORWARD DROP; ip6tables-legacy -P FORWARD DROP'],
  ['nft', 'iptables-nft -A FORWARD -j REJECT; ip6tables-nft -A FORWARD -j DROP'],
] as const;

const nftFirewall = `nft -f - <<'END'
add table inet firewall
add chain inet firewall forward { type filter hook forward priority 0; policy drop; }
END`;

describe('a node that drops what it forwards', () => {
  const world = useServices('each test', async () => {
    await world.put(
      ['Service', makeLoadBalancer('web', [{ port: 80 }])],
      ...overPods('web', [{ port: podPort }]),
      ...giveVips('web'),
    );
  });

  const { cluster } = world;

  /** What a client gets: a pod's answer, or nothing. */
  const ask = async (host: string, count = 20) => await cluster.seat('outside client').greet(host, 80, count);
  /** A connection through the node that is no Service's. */
  const passBy = async () =>
    (await cluster.seat('outside client').greet(pods[1]?.ipv4 ?? '', podPort, 2, 1000)).apiservers;

  const shown = isFull ? firewalls : firewalls.slice(0, 1);
  test.each(shown)('lets Services pass, and no others (%s: %s)', async (dialect, firewall) => {
    await world.shell('client', `ip route replace 10.244.0.0/16 via 10.77.0.11`);
    expect(Object.keys(await passBy())).toHaveLength(1);
    await world.shell('m1', firewall);
    expect(await passBy()).toEqual({});
    const balancer = await world.startBalancer(balanced);
    await balancer.waitForLine(
      new RegExp(`chain FORWARD of ip6tables-${dialect} drops packets: chain VIPLB-FORWARD lets`),
    );
    for (const host of [ipv4, ipv6]) {
      const { errors, apiservers } = await ask(host, 60);
      expect({ errors, count: Object.keys(apiservers).length }).toEqual({ errors: {}, count: 3 });
    }
    expect(await passBy()).toEqual({});
    const save = `iptables-${dialect}-save -t filter; ip6tables-${dialect}-save -t filter`;
    expect(await world.shell('m1', save)).toContain('-A FORWARD -j VIPLB-FORWARD');
    await world.stopBalancers();
    const { stdout } = await vipnat(cluster, 'm1', ['cleanup', '--dry-run']);
    expect(stdout).toContain(`iptables-${dialect} -t filter -X VIPLB-FORWARD`);
    expect(await vipnat(cluster, 'm1', ['cleanup'])).toMatchObject({
      exitCode: 0,
      stderr: expect.stringContaining(`removed the chain VIPLB-FORWARD (filter, ip6tables-${dialect})`),
    });
    expect(await world.shell('m1', save)).not.toContain('VIPLB');
  });

  if (isFull)
    test('by a table of nftables is named, and lets connections pass by the rule that is printed', async () => {
      await world.shell('m1', nftFirewall);
      const balancer = await world.startBalancer(balanced);
      await balancer.waitForLine(/chain forward of table inet firewall drops forwarded packets by its/);
      const [line = ''] = balancer.listLines(/drops forwarded packets by its policy/);
      expect((await ask(ipv4, 10)).apiservers).not.toHaveProperty(pods[1]?.name ?? '');
      const [rule = ''] = /nft insert rule .* accept/.exec(line) ?? [];
      await world.shell('m1', rule);
      for (const host of [ipv4, ipv6]) {
        const { errors, apiservers } = await ask(host, 60);
        expect({ errors, count: Object.keys(apiservers).length }).toEqual({ errors: {}, count: 3 });
      }
    });
});
