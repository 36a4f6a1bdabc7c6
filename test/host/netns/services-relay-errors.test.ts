import {
  pods,
  serviceVips,
  type ApiChange,
  giveVips,
  overPods,
  podPort,
  useServices,
} from './service-world.ts';
import { makeLoadBalancer } from '../../support/kube-api/service-objects.ts';
import { families } from '../../../lib/net.ts';
import { describe, test, expect } from '@jest/globals';
import { outsider } from '../../support/network/layout.ts';
import { once } from 'node:events';
import { waitUntil } from '../../support/jest/waiting.ts';

const [first = { name: '', node: '' }] = pods;

/** Where pods send 30 kB to whoever connects. */
const largePort = 7000;
const serveLarge = `require("node:net").createServer((socket) => socket.on("error", () => 0).end(Buffer.alloc(30000)))
  .listen(${largePort}, "::", () => console.log("ready"))`;

/** How much each of six connections gets. */
const loadLarge = (host: string) => `${process.execPath} -e '
  const loaded = Array.from({ length: 6 }, () => new Promise((done) => {
    let bytes = 0;
    const socket = require("node:net").connect(89, "${host}", () => 0);
    socket.on("data", (data) => (bytes += data.length)).on("error", () => 0).on("close", () => done(bytes));
    socket.setTimeout(10000, () => socket.destroy());
  }));
  Promise.all(loaded).then((all) => console.log(JSON.stringify(all)));'`;

/** A host behind the one outside, by a link that takes smaller packets. Neither end's own link says so. */
const farAway = { ipv4: '10.99.0', ipv6: 'fd99:' } as const;

/** Of ICMP errors to a Service's address: all, and those that another node has sent on. */
const countErrors = `table inet count {
    chain errors {
      type filter hook prerouting priority -300
      ip daddr ${serviceVips.ipv4} icmp type 3 counter
      ip6 daddr ${serviceVips.ipv6} icmpv6 type 1-4 counter
      ip daddr ${serviceVips.ipv4} icmp type 3 ip ttl 200-223 counter
      ip6 daddr ${serviceVips.ipv6} icmpv6 type 1-4 ip6 hoplimit 200-223 counter
    }
  }`;

/** Over the pods of all nodes, which see their clients. */
function make(): ApiChange[] {
  const [tcp, udp] = [{ name: 't' }, { name: 'u', protocol: 'UDP' }];
  const listen = [
    { ...tcp, port: 89 },
    { ...udp, port: 90 },
  ];
  return [
    ['Service', makeLoadBalancer('large', listen, { spec: { externalTrafficPolicy: 'Local' } })],
    ...overPods('large', [
      { ...tcp, port: largePort },
      { ...udp, port: podPort },
    ]),
    ...giveVips('large'),
  ];
}

describe('clients of a Service with policy Local', () => {
  const world = useServices('all tests', async () => {
    await world.put(...make());
    for (const { node } of pods) await world.startBalancer(/default\/large is balanced/, { node });
  });

  const { cluster } = world;

  test('hear of a smaller link on the way, wherever their pod is; no ICMP error comes back to the node that holds the address', async () => {
    const far = await cluster.namespaces.create('far');
    const { pid } = cluster.namespaces.start(far, ['sleep', 'infinity']);
    const [four, six] = [farAway.ipv4, farAway.ipv6];
    await world.shell(
      'client',
      `ip link add far0 type veth peer name eth0 netns ${pid ?? 0}
         ip addr add ${four}.1/24 dev far0; ip addr add ${six}:1/64 dev far0 nodad; ip link set far0 mtu 1300 up`,
    );
    await cluster.namespaces.shell(
      far,
      `ip link set eth0 up; ip addr add ${four}.2/24 dev eth0; ip addr add ${six}:2/64 dev eth0 nodad
         ip route add default via ${four}.1; ip -6 route add default via ${six}:1`,
    );
    for (const { name, node } of pods) {
      const { ipv4, ipv6 } = outsider.addresses;
      await world.shell(node, `ip route add ${four}.0/24 via ${ipv4}; ip route add ${six}:/64 via ${ipv6}`);
      const { stdout } = cluster.start(name, [process.execPath, '-e', serveLarge]);
      if (stdout !== null) await once(stdout, 'data');
    }
    await world.shell(first.node, `nft -f - <<'.'\n${countErrors}\n.`);
    for (const family of families) {
      const loaded = await cluster.namespaces.shell(far, loadLarge(serviceVips[family]));
      expect(JSON.parse(loaded)).toEqual(Array.from({ length: 6 }, () => 30_000));
      // Whoever asks does not wait for the answers: the host outside says so of each.
      await world.askByUdp('client', serviceVips[family], 90, 20, 1);
    }
    const listCounts = async () =>
      [...(await world.shell(first.node, 'nft list table inet count')).matchAll(/packets (\d+)/g)].map(
        ([, count]) => Number(count),
      );
    await waitUntil(
      async () => (await listCounts()).slice(0, 2).every((count) => count > 0),
      'no ICMP error comes',
    );
    expect((await listCounts()).slice(2)).toEqual([0, 0]);
  });
});
