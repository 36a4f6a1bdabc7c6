import { describe, expect, test } from '@jest/globals';
import { waitUntil } from '../../support/host/vipnat.ts';
import { families } from '../../../lib/net.ts';
import { systemClock, sleep } from '../../../lib/clock.ts';
import { outsider } from '../../support/network/layout.ts';
import { makeLoadBalancer } from '../../support/kube-api/service-objects.ts';
import {
  type ApiChange,
  giveVips,
  overPods,
  podPort,
  type PodStates,
  pods,
  serviceVips,
  tcpAndUdp,
  useServices,
} from './service-world.ts';

const podNames = pods.map(({ name }) => name).sort();
const [first = { name: '', node: '' }, second = first] = pods;
const otherNames = podNames.filter((name) => name !== first.name);
/** Clients by more addresses of the host outside: enough that each pod has some. */
const moreClients = Array.from({ length: 12 }, (_, at) => `10.77.0.${110 + at}`);

/** The pods of a Service, of both families and for TCP and UDP. */
const list = (name: string, states?: PodStates) => overPods(name, tcpAndUdp(podPort), families, states);

const sctp = (port: number) => [{ port, name: 's', protocol: 'SCTP' }];

const make = (name: string, port: number, spec: object = {}): ApiChange => [
  'Service',
  makeLoadBalancer(name, tcpAndUdp(port), { spec: { externalTrafficPolicy: 'Local', ...spec } }),
];

/** Each connection is reset, so that its port is free again. */
const connectCommand = `${process.execPath} -e '
  const failures = {};
  const tried = Array.from({ length: 24 }, (_, at) => new Promise((done) => {
    const socket = require("node:net").connect({ host: "${serviceVips.ipv4}", port: 84, localPort: 31000 + at });
    const end = (word) => { if (word) failures[word] = (failures[word] ?? 0) + 1; socket.resetAndDestroy(); done(); };
    socket.once("connect", () => end("")).once("error", ({ code }) => end(code)).setTimeout(10000, () => end("lost"));
  }));
  Promise.all(tried).then(() => console.log(JSON.stringify(failures)));'`;

/** Reflected, least bit first. Source: RFC 9260, appendix A. */
const castagnoli = 0x82f63b78;

/** A packet of SCTP with an INIT from a port, as raw sockets send it: the kernel knows none of another checksum. Source: RFC 9260, 3.3.2. */
function makeInit(from: number, to: number): string {
  const packet = Buffer.alloc(32);
  packet.writeUInt16BE(from, 0);
  packet.writeUInt16BE(to, 2);
  packet.set([1, 0, 0, 20, 0, 0, 0, 7, 0, 1, 0, 0, 0, 1, 0, 1], 12);
  let sum = 0xffffffff;
  for (const byte of packet) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit += 1) sum = (sum >>> 1) ^ (sum & 1 ? castagnoli : 0);
  }
  packet.writeUInt32LE(~sum >>> 0, 8);
  return packet.toString('hex');
}

/** From the same ports each time, and to port 91. */
const peerPorts = Array.from({ length: 12 }, (_, at) => 32_000 + at);
const sendInits = `perl -MSocket -e 'socket(S, AF_INET, SOCK_RAW, 132) or die; for (@ARGV) {
  send(S, pack("H*", $_), 0, sockaddr_in(0, inet_aton("${serviceVips.ipv4}"))) or die }' \
  ${peerPorts.map((port) => makeInit(port, 91)).join(' ')}`;

/** From which ports packets of SCTP reach a pod. Nothing answers. */
const countSctp = `nft 'table inet seen {
    set ports { type inet_service; flags dynamic; size 64; }
    chain in { type filter hook prerouting priority -300; meta l4proto 132 add @ports { th sport } drop; }
  }'`;

/** What kube-proxy in ipvs mode with strictARP does with a Service's address, on every node. Its interface is down, of whatever type. */
const bindAsIpvs = `echo 1 > /proc/sys/net/ipv4/conf/all/arp_ignore
  echo 2 > /proc/sys/net/ipv4/conf/all/arp_announce
  ip link add kube-ipvs0 type bridge
  ip addr add ${serviceVips.ipv4}/32 dev kube-ipvs0
  ip addr add ${serviceVips.ipv6}/128 dev kube-ipvs0 nodad`;

describe('Services with policy Local, while m1 holds their address', () => {
  const world = useServices('all tests', async () => {
    await world.put(
      ...[make('local', 84), ...list('local')],
      ...[make('elsewhere', 87), ...list('elsewhere', { without: [0] })],
      ...[make('kept', 88, { sessionAffinity: 'ClientIP' }), ...list('kept')],
      ['Service', makeLoadBalancer('peers', sctp(91), { spec: { externalTrafficPolicy: 'Local' } })],
      ...overPods('peers', sctp(podPort)),
      ...giveVips('local', 'elsewhere', 'kept', 'peers'),
    );
    for (const { node } of pods) await world.startBalancer(/default\/local is balanced/, { node });
  });

  const { cluster } = world;

  const client = () => cluster.seat('outside client');

  /** What became of connections that begin from the same ports each time, but those that a pod took. */
  const connectFromPorts = async (): Promise<Record<string, number>> =>
    JSON.parse(await world.shell('client', connectCommand)) as Record<string, number>;

  const readSlots = async (node: string, id: string) => {
    const texts = ['ip', 'ip6'].map((ip) => `nft list map ${ip} vipnat-lb relay-default/${id}`);
    return new Set((await world.shell(node, texts.join('\n'))).match(/goto [^\s,]+|accept/g)).size;
  };

  /** Each node knows by then that new clients are for one pod. */
  const waitForOneNode = (id: string) => waitForSlots(id, (count) => count === 1);

  const waitForAllNodes = (id: string) => waitForSlots(id, (count) => count >= pods.length);

  const waitForSlots = async (id: string, isThere: (count: number) => boolean) => {
    for (const { node } of pods) {
      await waitUntil(
        async () => isThere(await readSlots(node, id)),
        `the balancer of ${node} does not notice the pods of ${id}`,
      );
    }
  };

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
  );

  test('are served also when no pod is on the node that holds the address, by UDP too', async () => {
    const { apiservers, errors } = await client().request(serviceVips.ipv4, 87, 60);
    expect([errors, Object.keys(apiservers).sort()]).toEqual([{}, otherNames]);
    const answers = await world.askByUdp('client', serviceVips.ipv4, 87, 30);
    expect(answers.filter((answer) => !answer.endsWith(' 10.77.0.100'))).toEqual([]);
  });

  test('go to its own pods from the node that holds the address, and from a pod there', async () => {
    const own = await cluster.seat("VIP holder's host").greet(serviceVips.ipv4, 84, 20);
    expect(own).toMatchObject({ apiservers: { [first.name]: 20 }, errors: {} });
    const answers = await world.askByUdp(first.name, serviceVips.ipv4, 84, 20);
    expect(answers.filter((answer) => !answer.startsWith(first.name))).toEqual([]);
  });

  test('go to nodes with a ready pod only if they are new: of a client that a pod keeps, and of a port that was used before', async () => {
    const addAll = moreClients.map((address) => `ip addr add ${address}/32 dev eth0\n`);
    await world.shell('client', addAll.join(''));
    const askKept = () =>
      Promise.all(moreClients.map((from) => client().requestFrom(from, serviceVips.ipv4, 88, 2)));
    // One pod for each client.
    const names = (await askKept()).map(({ apiservers }) => Object.keys(apiservers).join());
    expect([...new Set(names)].sort()).toEqual(podNames);
    expect(await connectFromPorts()).toEqual({});
    const { held, report } = await client().hold({ host: serviceVips.ipv4, port: 84 }, 60, 6000);
    const unready = [0, 2];
    await world.put(...list('kept', { unready }), ...list('local', { unready }));
    for (const id of ['kept/tcp/88', 'local/tcp/84']) await waitForOneNode(id);
    expect(await connectFromPorts()).toEqual({});
    for (const { apiservers, errors } of await askKept())
      expect({ apiservers, errors }).toEqual({ apiservers: { [second.name]: 2 }, errors: {} });
    const { sent, echoes, errors } = await report;
    expect({ held, errors, lost: sent - echoes }).toEqual({ held: 60, errors: {}, lost: 0 });
    await world.put(...list('kept'), ...list('local'));
    for (const id of ['kept/tcp/88', 'local/tcp/84']) await waitForAllNodes(id);
  });

  test('go to nodes with a ready pod by their INIT of SCTP, also from a port that was used before', async () => {
    for (const { name } of pods) await world.shell(name, countSctp);
    /** By pod, the ports whose INIT has reached it since the last time. */
    const send = async () => {
      await world.shell('client', sendInits);
      const list = 'nft list set inet seen ports; nft flush set inet seen ports';
      const seen: number[][] = [];
      for (const { name } of pods) {
        const [, text = ''] = /elements = \{([^}]*)/.exec(await world.shell(name, list)) ?? [];
        seen.push((text.match(/\d+/g) ?? []).map(Number));
      }
      return seen;
    };
    const before = await send();
    expect(before.flat().sort()).toEqual(peerPorts);
    expect(before.filter((ports) => ports.length > 0).length).toBeGreaterThan(1);
    await world.put(...overPods('peers', sctp(podPort), families, { unready: [0, 2] }));
    await waitForOneNode('peers/sctp/91');
    // A moment later the holder has forgotten what its own pod did not answer.
    await sleep(systemClock, 1000);
    for (let again = 0; again < 3; again += 1) expect(await send()).toEqual([[], peerPorts, []]);
  });

  test('are remembered for a minute at first, for half a minute after their end, and for long while they are open', async () => {
    /** The ports of clients that one of these nodes remembers, to the seconds that are left. */
    const readTimes = async (id: string, seconds: number) => {
      const list = `nft list map ip vipnat-lb relayed/default/local/${id}/${seconds}`;
      const text = await world.shell(first.node, list);
      const found = [...text.matchAll(/(\d+) \. [\d.]+(?: timeout \w+)? expires (?:(\d+)m)?(?:(\d+)s)?/g)];
      return new Map(found.map(([, port, minutes = 0, rest = 0]) => [Number(port), 60 * +minutes + +rest]));
    };
    const among = (times: ReadonlyMap<number, number>, from: number) =>
      [...times].filter(([port]) => port >= from && port < from + 24).map(([, seconds]) => seconds);
    const { report } = await client().hold({ host: serviceVips.ipv4, port: 84 }, 60, 1000);
    expect(await connectFromPorts()).toEqual({});
    const drop = 'nft "add table ip deaf; add chain ip deaf in { type filter hook input priority 0; }';
    await world.shell('client', `${drop}; add rule ip deaf in tcp sport 84 drop"`);
    await world.shell('client', `timeout 2 ${connectCommand.replace('31000', '41000')} || true`);
    await world.shell('client', 'nft delete table ip deaf');
    const times = await readTimes('tcp/84', 900);
    const [ended, unseen] = [among(times, 31_000), among(times, 41_000)];
    expect([ended.length > 5, Math.max(...ended) <= 30]).toEqual([true, true]);
    expect([unseen.length > 5, Math.max(...unseen) <= 60]).toEqual([true, true]);
    expect([...times.values()].filter((seconds) => seconds > 600).length).toBeGreaterThan(20);
    await report;
    await world.askByUdp('client', serviceVips.ipv4, 84, 30);
    const ofUdp = [...(await readTimes('udp/84', 180)).values()];
    expect([ofUdp.length > 5, Math.max(...ofUdp) <= 60]).toEqual([true, true]);
  });

  test('are sent on also where kube-proxy in ipvs mode had their address before the node that holds it now', async () => {
    await Promise.all(pods.map(({ node }) => world.shell(node, bindAsIpvs)));
    await waitUntil(
      async () => (await world.shell(first.node, 'nft list table ip vipnat-lb')).includes('iifname'),
      'the balancer does not notice kube-ipvs0',
    );
    // As keepalived does when another node is lost: behind what kube-proxy has on every node.
    const [held4, held6] = [`${serviceVips.ipv4}/32 dev eth0`, `${serviceVips.ipv6}/128 dev eth0`];
    await world.shell(
      first.node,
      `ip addr del ${held4}; ip addr add ${held4}; ip addr del ${held6}; ip addr add ${held6} nodad preferred_lft 0`,
    );
    for (const family of ['ipv4', 'ipv6'] as const) {
      const { apiservers, errors } = await client().greet(serviceVips[family], 87, 60);
      expect([errors, Object.keys(apiservers).sort()]).toEqual([{}, otherNames]);
      const { from } = await client().request(serviceVips[family], 84, 30);
      expect(Object.keys(from)).toEqual([outsider.addresses[family]]);
      const { apiservers: all } = await client().greet(serviceVips[family], 84, 150);
      expect(Object.keys(all).sort()).toEqual(podNames);
    }
  });

  test('keep open connections to pods of other nodes that end, and send new ones elsewhere', async () => {
    const { held, report } = await client().hold({ host: serviceVips.ipv4, port: 84 }, 60, 6000);
    expect(held).toBe(60);
    await world.put(...list('local', { ending: [1, 2] }));
    const { sent, echoes, errors } = await report;
    expect({ errors, lost: sent - echoes }).toEqual({ errors: {}, lost: 0 });
    const { apiservers } = await client().greet(serviceVips.ipv4, 84, 30);
    expect(apiservers).toEqual({ [first.name]: 30 });
  });
});
