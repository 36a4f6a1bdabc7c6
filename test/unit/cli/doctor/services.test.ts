import { describe, test, expect } from '@jest/globals';
import { diagnose } from '../../../../cli/doctor/examine.ts';
import {
  makeFacts,
  assessWell,
  observing,
  tell,
  advert,
  readTable,
} from '../../../support/doctor/well-host.ts';
import {
  codes,
  makeCluster,
  classless,
  tellServices,
  services,
  wellHost,
  wellBut,
  inCluster,
  activity,
  running,
  path,
  seatText,
} from '../../../support/doctor/services-host.ts';
import { TemporaryFolder } from '../../../support/network/at-end.ts';
import { writeFileSync } from 'node:fs';
import { VipnatError } from '../../../../lib/errors.ts';
import { join } from 'node:path';
import { findCalicoMap, listFree } from '../../../../cli/doctor/services-facts.ts';
import { sysctlNames, type HostFacts } from '../../../../cli/doctor/facts.ts';
import { makeObjects, makeNodeLease, ago } from '../../../support/fakes/service-view.ts';
import { makePool } from '../../../support/fakes/service-objects.ts';
import { makeDevice, makeDeviceService } from '../../../support/fakes/device-objects.ts';
import { makePair, judgeTrusted } from '../../../../controller/webhook/certificate.ts';
import type { HostBalancer, BalancerActivity } from '../../../../lib/api/balancer.ts';
import type { ServiceObjects } from '../../../../cli/services/view.ts';

const acting = (parts: Partial<BalancerActivity>) =>
  wellBut({ host: { ...running, activity: { ...activity, ...parts } } });
const without = (tables: HostBalancer['tables']) =>
  wellBut({ host: { ...running, balancer: null, activity: null, tables } });
const notDirect = (nftVersion: string | null) =>
  wellBut({ nftVersion, host: { ...running, activity: { ...activity, mode: 'kube-proxy' } } });
const off = [{ family: 'ipv4', aliveSeconds: null }] as const;
const [pool] = makeObjects({}).pools;
const accepted = { type: 'Accepted', status: 'True', reason: 'NodeReportsAddress' };
const misreported = makePool('pool', pool?.spec ?? {}, {
  status: {
    ...pool?.status,
    conditions: [{ ...accepted, message: 'Nodes report: 10.0.9.10 (the node w1).' }],
  },
});
const ownInstance =
  'vrrp_instance vip {\n interface eth0\n virtual_router_id 11\n virtual_ipaddress { 10.77.0.50 }\n}';

/** Hosts on which all is well, but for this. */
const hosts: Readonly<Record<string, Partial<HostFacts>>> = {
  'no balancer': without([{ family: 'ipv4', aliveSeconds: 25 }]),
  'no balancer, old tables': without(off),
  'old tables': wellBut({ host: { ...running, tables: off } }),
  'tables that are away': notDirect('1.0.6'),
  'a hanging balancer': acting({ behindMs: 180_000 }),
  'a balancer without API': acting({ isFollowing: false }),
  'an unheard node': acting({ unheard: ['w3 (10.0.0.23:10256)'] }),
  'a full memory': acting({ fullMemories: ['ipv6 kept/default/web/tcp/80/60'] }),
  'a strict tunnel': wellBut({ strictTunnels: { value: ['flannel.1'] } }),
  'no keepalived': { ...wellHost, seatProcesses: { value: [] } },
  'a refused configuration': wellBut({
    keepalived: { value: { path, text: seatText, refusal: '(Line 4) unknown\nmore' } },
  }),
  'the id of another host': {
    ...wellHost,
    adverts: { value: [{ ...advert, vrid: 11, source: '10.0.9.77', addresses: ['10.0.9.200'] }] },
  },
  'the id of an own instance': {
    ...wellHost,
    keepalived: { value: { path: '/etc/keepalived/keepalived.conf', text: ownInstance, files: [] } },
  },
  'an unwatched balancer': acting({ isWatched: false }),
  'an address in use': acting({ inUse: ['10.0.9.14'] }),
  'an address in use here': {
    ...wellBut({
      cluster: { value: makeCluster({}) },
      poolUsers: { value: new Map([['10.0.9.15', '02:00:00:00:00:07']]) },
    }),
  },
  'an address in use elsewhere': inCluster({ leases: [makeNodeLease('w2', 2, { inUse: ['10.0.9.16'] })] }),
  'a pool of another network': inCluster({}, '10.0.8.1'),
  'a Node with an address': inCluster({ pools: [misreported] }),
  'a Service without class': inCluster({ services: [classless] }),
};

test.each(
  readTable(`
    no balancer                 | balancer-not-running          | warn | count for 25 more seconds
    no balancer, old tables     | balancer-not-running          | fail | Its tables (ip vipnat-lb) no longer count
    old tables                  | balancer-tables-off           | fail | no balancer renewed ip vipnat-lb for 30 s
    tables that are away        | balancer-tables-off           | fail | it reports mode kube-proxy
    a hanging balancer          | balancer-hangs                | fail | has lasted for 3m00s
    a balancer without API      | balancer-without-api          | warn | does not follow the Kubernetes API
    an unheard node             | node-never-answered           | warn | node w3 (10.0.0.23:10256) does not answer
    a full memory               | service-memory-full           | warn | nft list map ip6 vipnat-lb kept/default/web/tcp/80/60
    a strict tunnel             | services-behind-strict-tunnel | warn | flannel.1 drops packets
    no keepalived               | seats-keepalived-not-running  | fail | no keepalived runs with /run/vipnat-lb/keepalived.conf
    a refused configuration     | seats-configuration-refused   | fail | refused /run/vipnat-lb/keepalived.conf: (Line 4) unknown
    an unwatched balancer       | seats-balancer-not-watched    | warn | does not run /run/vipnat-lb/check-balancer
    the id of another host      | seat-vrid-clash               | fail | 10.0.9.77 uses it for 10.0.9.200
    the id of an own instance   | seat-vrid-clash               | fail | the vrrp_instance vip of /etc/keepalived/keepalived.conf has it, too
    an address in use           | pool-address-in-use           | fail | another host has 10.0.9.14
    an address in use here      | pool-address-in-use           | fail | MAC 02:00:00:00:00:07 answers
    an address in use elsewhere | pool-address-in-use           | fail | w2 found it
    a pool of another network   | pool-off-network              | warn | 10.0.9.10 is in no subnet of this host
    a Node with an address      | node-reports-service-address  | warn | 10.0.9.10 (the node w1)
    a Service without class     | service-without-class         | warn | no controller serves shop/old`),
)('a host with %s is told %s, and it alone', async (host, code, level, words) => {
  const all = await tellServices(hosts[host] ?? {});
  const told = all.filter((outcome) => outcome.level !== 'skipped');
  expect(told).toMatchObject([{ code, level }]);
  expect(JSON.stringify(told)).toContain(words);
});

const dayMs = 86_400_000;

test.each([
  ['there is none', null, 0, null],
  ['nothing is trusted', [], 0, 'warn: the certificate of the webhook is not known to API servers'],
  ['the last one has just been made', [-120, 0], 0, null],
  ['it is to be renewed', [0], 121, null],
  ['it was not renewed', [0], 305.5, 'warn: the certificate of the webhook ends in 59 d'],
  ['it has ended', [0], 370.5, 'warn: the certificate of the webhook ended 5 d ago'],
])('what API servers trust of the webhook: %s', async (_, made, days, words) => {
  const start = Date.now();
  const pairs = await Promise.all((made ?? []).map((at) => makePair('a.svc', new Date(start + at * dayMs))));
  const text = pairs.map(({ certificate }) => certificate).join('');
  const webhook = { value: made && judgeTrusted(text, start + days * dayMs) };
  const told = (await tellServices(wellBut({ webhook }))).find(({ code }) => code === 'webhook-not-trusted');
  expect(told === undefined ? null : `${told.level}: ${'title' in told ? told.title : ''}`).toBe(words);
});

const say = (reason: string, message: string, status = 'False') => ({
  devices: [makeDevice('edge', {}, {}, { status, reason, message })],
});
const left = { finalizers: ['x', 'device.vipnat.io/gone'], deletionTimestamp: ago(5) };
const ofGone = (metadata: Readonly<Record<string, unknown>>) => ({
  services: [makeDeviceService('shop/web', 'gone', { metadata })],
});

async function findOfDevices(parts: Partial<ServiceObjects> = {}) {
  const cluster = { value: makeCluster({ pools: [], ...parts }) };
  const all = await tellServices(services({ cluster }));
  return all.filter(({ code, level }) => code.startsWith('device-') && level !== 'ok');
}

const deviceToObjects: Readonly<Record<string, Partial<ServiceObjects>>> = {
  'is not ready': say('Unreachable', 'No unit answers.'),
  'has no unit that could take over': say('NotInSync', 'u2 is behind.', 'True'),
  'works with credentials that are gone': say('CredentialsUnread', 'There is no Secret.', 'True'),
  'has the name of another cluster': say('ClusterNameTaken', 'Another cluster writes.', 'True'),
  'was never looked at': { devices: [makeDevice('edge')] },
  'names a Secret that is not there': say('SecretMissing', 'there is no Secret vipnat-system/x. Create it.'),
  'is not there, and a Service names it': ofGone({ finalizers: [] }),
  'is gone, and a Service has its finalizer': ofGone(left),
};

test.each(
  readTable(`
    is not ready                             | device-not-ready fail | edge is not ready: Unreachable | reason Unreachable: docs
    has no unit that could take over         | device-not-ready warn | u2 is behind                   | vipnat services
    works with credentials that are gone     | device-not-ready warn | There is no Secret             | reason CredentialsUnread: docs
    has the name of another cluster          | device-not-ready warn | another cluster uses the name  | reason ClusterNameTaken: docs
    was never looked at                      | device-not-ready warn | no controller has looked       | logs -l
    names a Secret that is not there         | device-secret-missing fail | no Secret vipnat-system/x      | create secret generic NAME
    is not there, and a Service names it     | device-missing fail | no LoadBalancerDevice gone: shop/web | get loadbalancerdevices
    is gone, and a Service has its finalizer | device-finalizer-left fail | shop/web has the finalizer     | "test","path":"/metadata/finalizers/1"`),
)('a device that %s is told as %s', async (device, finding, title, remedy) => {
  const [code, level] = finding.split(' ');
  const told = await findOfDevices(deviceToObjects[device]);
  expect(told).toMatchObject([{ code, level, title: expect.stringContaining(title) }]);
  const lines = told.flatMap((one) => ('remedy' in one ? one.remedy : []));
  expect(lines.join('\n')).toContain(remedy);
  expect(lines.filter((line) => !line.startsWith('# '))).toEqual([]);
});

test('nothing is said of a device that is well, nor without devices', async () => {
  const devices = [makeDevice('edge', {}, {}, {})];
  expect(await findOfDevices({ devices, services: [makeDeviceService('shop/web', 'edge')] })).toEqual([]);
  expect(await findOfDevices()).toEqual([]);
});

const unread = new VipnatError('TOOL_NOT_PERMITTED', 'nft is not permitted');

describe('on a host without Services', () => {
  test.each([
    ['whose tables could be read, none is checked', null, []],
    ['that may not be read, none is called well', unread, codes],
  ])('%s', async (_, problem, expected) => {
    const { services } = await makeFacts();
    const facts = await makeFacts({ services: { ...services, host: { ...services.host, unread: problem } } });
    const topic = diagnose(facts).find(({ name }) => name === 'Services');
    expect(topic?.outcomes).toEqual(
      expected.map((code) => ({ code, level: 'skipped', reason: unread.message })),
    );
  });

  test('an API without pools changes nothing of that, whatever Services wait there', async () => {
    const cluster = makeCluster({ pools: [], services: [classless] });
    expect(await tellServices(services({ cluster: { value: cluster } }))).toEqual([]);
  });
});

describe('on a host with Services', () => {
  test('only what needs the API is not checked without credentials, and it says so', async () => {
    const reason = 'not asked: the Kubernetes API needs --kubeconfig';
    expect(await tellServices(wellHost)).toEqual(
      [
        ...['pod-waits-for-gate', 'pool-off-network', 'pool-address-in-use', 'node-reports-service-address'],
        ...['service-without-class', 'webhook-not-trusted', 'device-not-ready', 'device-secret-missing'],
        ...['device-missing', 'device-finalizer-left'],
      ].map((code) => ({ code, level: 'skipped', reason })),
    );
  });

  test('and without a virtual IP of the API, nothing is said of one', async () => {
    const facts = await makeFacts(wellHost);
    const topics = diagnose({ ...facts, config: { ...facts.config, vips: [] } });
    expect(topics.map(({ name }) => name)).toEqual(['rights, tools, kernel', 'kube-proxy', 'Services']);
  });

  test.each([
    ['missing', null, ['iptables-nft-save', 'apt-get'], 'nft is not in PATH'],
    ['1.0.2', '1.0.2', ['nft', 'apt-get'], 'nft is version 1.0.2'],
  ])('nft that is %s is told where the balancer writes no tables', async (_, nftVersion, tools, words) => {
    const told = await tellServices({ ...notDirect(nftVersion), tools: new Set(tools) });
    expect(told.find(({ code }) => code === 'balancer-lacks-nft')).toMatchObject({
      title: words,
      remedy: ['# if the balancer runs outside of a pod:', 'apt-get install nftables'],
    });
    const direct = await tellServices(wellBut({ nftVersion }));
    expect(direct.map(({ code }) => code)).not.toContain('balancer-lacks-nft');
  });

  test('Cilium is told of where it replaces kube-proxy, and not beside it', async () => {
    const proxyMode = { value: 'none', seenIn: 'no chains of kube-proxy' } as const;
    const cilium = '/sys/class/net/cilium_host';
    const peers = await tellServices(wellBut({ cilium }));
    expect(peers.map(({ code }) => code)).not.toContain('services-beside-cilium');
    const told = await tellServices({ ...wellBut({ cilium }), ...(await observing({ proxyMode })) });
    expect(told.find(({ code }) => code === 'services-beside-cilium')).toMatchObject({ level: 'warn' });
  });

  test("Calico is told of where its eBPF dataplane has its map, and not for Felix's chains or other maps", async () => {
    const folder = new TemporaryFolder('maps');
    const make = (name: string) => {
      writeFileSync(join(folder.path, name), '');
    };
    for (const name of ['cali_v4_stats', 'cali_jump3', 'cilium_lb4_services_v2']) make(name);
    const told = async () => {
      const calicoEbpf = await findCalicoMap(folder.path);
      const outcomes = await tellServices(wellBut({ calicoEbpf }));
      return outcomes.find(({ code }) => code === 'services-beside-calico-ebpf');
    };
    expect(await findCalicoMap('/nowhere')).toBeNull();
    expect(await told()).toBeUndefined();
    make('cali_v4_nat_fe3');
    expect(await told()).toMatchObject({
      level: 'warn',
      why: expect.stringContaining('bpfHostConntrackBypass'),
    });
    folder.remove();
  });

  test('loose ARP beside IPVS is a failure: each node answers for the addresses of Services', async () => {
    const { observation } = await assessWell();
    const proxyMode = { value: 'ipvs', seenIn: 'kube-proxy' } as const;
    const dummy = { family: 'ipv4', address: '10.0.9.12', device: 'kube-ipvs0' } as const;
    const loose = {
      ...(await observing({ proxyMode, addresses: [...observation.addresses, dummy] })),
      sysctls: new Map([
        [sysctlNames.arpIgnore, '0'],
        [sysctlNames.arpAnnounce, '0'],
      ]),
    };
    const find = async (changes: Partial<HostFacts>) =>
      (await tell({ ...loose, ...changes })).find(({ code }) => code === 'strict-arp-off');
    expect(await find({})).toMatchObject({ level: 'warn' });
    expect(await find(wellHost)).toMatchObject({
      level: 'fail',
      why: expect.stringContaining('It has 1 here'),
    });
  });

  test('an advert of a seat of its own is no clash, nor a clash on another interface', async () => {
    const own = { ...advert, vrid: 11, source: '10.0.9.2', addresses: ['10.0.9.10'] };
    const text =
      'vrrp_instance vip {\n interface eth1\n virtual_router_id 11\n virtual_ipaddress { 10.77.0.50 }\n}';
    const keepalived = { value: { path: 'x', text, files: [] } };
    const told = await tellServices({ ...wellHost, keepalived, adverts: { value: [own] } });
    expect(told.map(({ code }) => code)).not.toContain('seat-vrid-clash');
  });

  test('no remedy of Services has a command that changes the cluster or moves an address', async () => {
    const told = await tellServices({ ...hosts['no balancer'], seatProcesses: { value: [] } });
    const lines = told.flatMap((outcome) => ('remedy' in outcome ? outcome.remedy : []));
    expect(lines.length).toBeGreaterThan(0);
    expect(lines.filter((line) => !line.startsWith('#'))).toEqual([]);
  });
});

test('free addresses of pools are those that nobody has, up to a limit', () => {
  const spec = { addresses: ['10.0.9.10-10.0.9.13', 'fd00::/64'] };
  const [pool] = makeObjects({}).pools;
  if (pool === undefined) throw new Error('no pool');
  const free = listFree([{ spec: { ...pool.spec, ...spec } }], new Set(['10.0.9.11']), 5);
  expect(free.map(({ text }) => text)).toEqual(['10.0.9.10', '10.0.9.12', '10.0.9.13', 'fd00::', 'fd00::1']);
});
