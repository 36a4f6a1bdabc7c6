import { describe, test, expect } from '@jest/globals';
import { type HostFacts, ipvsModules, sysctlNames } from '../../../../cli/doctor/facts.ts';
import type { ModuleState } from '../../../../lib/kernel/forwarding.ts';
import { planSourceRoutes } from '../../../../agent/local-clients.ts';
import { ordinaryConfig } from '../../../support/agent/running-agent.ts';
import {
  withSysctl,
  makeProcess,
  apiserver,
  withProcesses,
  withServer,
  withConfiguration,
  keepalivedText,
  keepalived,
  own,
  advert,
  withFile,
  kubeconfig,
  assessWell,
  assessing,
  tell,
  readTable,
} from '../../../support/doctor/well-host.ts';

const unit = '/system.slice/keepalived.service';
const { conntrackCount, conntrackLoose, conntrackMax } = sysctlNames;
const haproxy = makeProcess('haproxy', { group: '/system.slice/haproxy.service' });
const kubeVip = withProcesses(makeProcess('kube-vip', { group: '/kubepods.slice/x' }));
const listening: Partial<HostFacts> = {
  listeners: { value: [{ family: 'ipv4', address: '10.77.0.50', port: 6443, pid: 20 }] },
  ...withProcesses(haproxy),
};
const trackFile = (content: string) => ({ trackFile: { value: { content, isWatched: false } } });
const withAdverts = (...adverts: object[]) => ({ adverts: { value: adverts as (typeof advert)[] } });
const noTracking = {
  ...({ kind: 'iptables', family: 'ipv4', dialect: 'nft' } as const),
  text: '*raw\n:PREROUTING ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n-A PREROUTING -p tcp -m tcp --dport 6443 -j CT --notrack\nCOMMIT\n',
};

/** Hosts that lack nothing but this. */
const hosts: Readonly<Record<string, Partial<HostFacts>>> = {
  'no right': { rights: { value: { hasNetAdmin: false, hasNetRaw: true } } },
  'no tools': { tools: new Set(['apt-get']) },
  '80 connections': withSysctl(conntrackCount, '80'),
  '95 connections': withSysctl(conntrackCount, '95'),
  'strict tracking': withSysctl(conntrackLoose, '0'),
  'no keepalived': {
    processes: {
      value: [makeProcess('kube-apiserver', { arguments: ['x', '--shutdown-delay-duration', '5s'] })],
    },
  },
  'another address': withConfiguration(
    'vrrp_instance x {\n virtual_router_id 7\n virtual_ipaddress { 10.77.0.9 }\n}',
  ),
  'another track file': withConfiguration(keepalivedText.replace('serving"', 'other"')),
  'track file unseen': trackFile('0'),
  'track file unseen, by a unit': {
    ...trackFile('1'),
    processes: {
      value: [{ ...keepalived, pid: 12, group: unit }, { ...keepalived, group: unit }, apiserver],
    },
  },
  'drained long ago': { drain: { value: { since: new Date(0), vipStaysSince: null } } },
  'drained in vain': { drain: { value: { since: new Date(), vipStaysSince: new Date() } } },
  'held twice': withAdverts(own, advert, own, advert),
  'held twice, silent here': withAdverts(advert, advert),
  'vrid of others': withAdverts(
    { ...advert, source: '10.77.0.99', addresses: ['10.77.0.7'] },
    { ...advert, source: '10.77.0.98', vrid: 52, addresses: ['10.77.0.8'] },
  ),
  'scheduler at the VIP': withFile(
    '/etc/kubernetes/scheduler.conf',
    kubeconfig('https://cluster-endpoint:6443'),
  ),
  'kubelet past the VIP': withFile('/etc/kubernetes/kubelet.conf', kubeconfig('https://10.77.0.13:6443')),
  'sick kube-proxy': { kubeProxy: { status: 503, ipvs: null } },
  'virtual server': withServer,
  'haproxy listens': listening,
  'kube-vip': kubeVip,
  'no agent': { agent: null },
  'old agent': { agent: { version: '0.0.9', pid: 1, since: '' } },
  'foreign policy': { forwardChains: { value: [{ table: 'inet firewall', name: 'fwd', isDropping: true }] } },
  'no tracking': { earlyRules: { value: [noTracking] } },
  'no delay': {
    processes: {
      value: [
        keepalived,
        makeProcess('kube-apiserver', { arguments: ['kube-apiserver', '--shutdown-delay-duration=0s'] }),
      ],
    },
  },
};

test.each(
  readTable(`
    no right             | not-permitted          | fail | sudo vipnat doctor --vip=10.77.0.50:6443
    no tools             | no-firewall-tool       | fail | apt-get install iptables
    80 connections       | conntrack-nearly-full  | warn | sysctl -w net.netfilter.nf_conntrack_max=200
    95 connections       | conntrack-nearly-full  | fail | sysctl -w net.netfilter.nf_conntrack_max=200
    strict tracking      | conntrack-not-loose    | warn | sysctl -w net.netfilter.nf_conntrack_tcp_loose=1
    no keepalived        | keepalived-not-running | warn | systemctl enable --now keepalived
    another address      | keepalived-lacks-vip   | warn | vipnat keepalived --vip=10.77.0.50:6443
    another track file   | keepalived-untracked   | warn | keepalived --config-test --use-file=/etc/keepalived/keepalived.conf && kill -HUP 7
    track file unseen    | track-file-dropped     | warn | kill -HUP 7
    track file unseen, by a unit | track-file-dropped | warn | systemctl reload keepalived.service
    drained long ago     | host-drained           | warn | vipnat undrain
    drained in vain      | host-drained           | warn | vipnat drain
    held twice           | vip-held-twice         | fail | iptables-nft -I INPUT -p vrrp -s 10.77.0.12 -j ACCEPT
    held twice, silent here | vip-held-twice      | fail | iptables-nft -I INPUT -p vrrp -s 10.77.0.12 -j ACCEPT
    vrid of others       | vrid-clash             | fail | #      virtual_router_id 53
    scheduler at the VIP | kubeconfig-at-vip      | warn | sed -i 's#https://cluster-endpoint:6443#https://10.77.0.11:6443#' /etc/kubernetes/scheduler.conf
    kubelet past the VIP | kubeconfig-past-vip    | warn | sed -i 's#https://10.77.0.13:6443#https://10.77.0.11:6443#' /etc/kubernetes/kubelet.conf
    sick kube-proxy      | kube-proxy-unhealthy   | fail | kubectl -n kube-system delete pod -l k8s-app=kube-proxy --field-selector spec.nodeName="$(hostname)"
    virtual server       | foreign-virtual-server | warn | ipvsadm -D -t 10.77.0.50:6443
    haproxy listens      | foreign-listener       | fail | systemctl disable --now haproxy.service
    kube-vip             | kube-vip-running       | warn | mv /etc/kubernetes/manifests/kube-vip.yaml /etc/kubernetes/
    no agent             | agent-not-running      | warn | systemctl enable --now vipnat
    old agent            | agent-other-version    | warn | systemctl restart vipnat
    foreign policy       | forward-dropped-elsewhere | fail | nft insert rule inet firewall fwd ct status dnat accept
    no tracking          | packets-not-tracked    | fail | iptables-nft -t raw -I PREROUTING -p tcp -d 10.77.0.50 --dport 6443 -j ACCEPT
    no delay             | no-shutdown-delay      | warn | # start kube-apiserver with --shutdown-delay-duration=10s`),
)('a host with %s is told %s, with the command that mends it', async (host, code, level, command) => {
  const told = (await tell(hosts[host])).filter((outcome) => outcome.level !== 'skipped');
  expect(told).toMatchObject([{ code, level, remedy: expect.arrayContaining([command]) }]);
});

async function find(code: string, changes: Partial<HostFacts>): Promise<Awaited<ReturnType<typeof tell>>> {
  return (await tell(changes)).filter((one) => one.code === code);
}

async function remedyOf(code: string, changes: Partial<HostFacts>): Promise<readonly string[]> {
  return (await find(code, changes)).flatMap((one) => ('remedy' in one ? one.remedy : []));
}

const commandsIn = (remedy: readonly string[]) => remedy.filter((line) => !line.startsWith('#'));

describe('who serves the API at the VIP is left alone, and docs/migrate.md named,', () => {
  const cases = [
    ['foreign-listener', listening],
    ['kube-vip-running', kubeVip],
    ['foreign-virtual-server', withServer],
  ] as const;

  test.each(cases)('while no agent runs: %s', async (code, changes) => {
    const remedy = await remedyOf(code, { ...changes, agent: null });
    expect(remedy.join('\n')).toContain('docs/migrate.md');
    expect(commandsIn(remedy)).toEqual([]);
  });

  test.each(cases)('while the agent leaves the VIP to its holder: %s', async (code, changes) => {
    const { decisions } = await assessWell();
    const passing = decisions.map((one) => ({ ...one, mode: 'passthrough' as const }));
    const facts = { ...changes, ...(await assessing({ decisions: passing })) };
    expect(commandsIn(await remedyOf(code, facts))).toEqual([]);
  });
});

test("IPVS's virtual server of others is pruned by a kube-proxy in ipvs mode alone, whose CIDRs leave it", async () => {
  const kubeProxy = { status: 200, ipvs: { excludeCidrs: [] } };
  expect(await find('foreign-virtual-server', { ...withServer, kubeProxy })).toMatchObject([
    { why: expect.stringContaining('whenever vipnat’s rules are gone') },
  ]);
});

const checked = withConfiguration(`vrrp_script chk {\n script "/x"\n}\n${keepalivedText}`);
const wrapper = { processes: { value: [keepalived, apiserver, makeProcess('my-wrapper')] } };
const alone = { processes: { value: [apiserver, makeProcess('kube-vip')] } };

test.each<[string, string, Partial<HostFacts>, string]>([
  ['a check of keepalived asks it', 'foreign-listener', { ...listening, ...checked }, 'step 2'],
  ['no keepalived holds the VIP', 'kube-vip-running', alone, 'docs/migrate.md'],
  ['it has the port of an apiserver', 'foreign-listener', { ...listening, ...wrapper }, 'not an apiserver'],
])('a process is not stopped while %s', async (_, code, changes, words) => {
  const remedy = await remedyOf(code, changes);
  expect(commandsIn(remedy)).toEqual([]);
  expect(remedy.join('\n')).toContain(words);
});

test.each<[string, Partial<HostFacts>]>([
  ['agent-not-running', { agent: null }],
  ['agent-other-version', { agent: { version: '0.0.9', pid: 1, since: '' } }],
  ['keepalived-not-running', { processes: { value: [apiserver] } }],
])('a unit that is not there is in no remedy: %s', async (code, changes) => {
  const commands = commandsIn(await remedyOf(code, { ...changes, units: new Set() }));
  expect(commands.filter((line) => line.includes('systemctl'))).toEqual([]);
});

const proxy = makeProcess('kube-proxy', { arguments: ['kube-proxy', '--proxy-mode=ipvs'] });
const withModules = (...states: readonly ModuleState[]): Partial<HostFacts> => ({
  ...withProcesses(proxy),
  modules: new Map(ipvsModules.map((name, index) => [name, states[index] ?? 'here'])),
  sysctls: new Map([
    [conntrackCount, '1'],
    [conntrackLoose, '1'],
  ]),
});
const nameEnds = (name: string): unknown => expect.stringMatching(` no ${name}$`);
const absent = withModules('absent', 'absent', 'absent');
const unknown = withModules('unknown', 'unknown', 'unknown');
const sysctls = new Map([...(unknown.sysctls ?? []), [conntrackMax, '100'] as const]);

test.each<[string, Partial<HostFacts>, readonly object[]]>([
  ['absent are named', absent, ipvsModules.map((name) => ({ level: 'fail', title: nameEnds(name) }))],
  [
    'loadable are loaded by ip_vs: the kernel loads the others itself',
    withModules('loadable', 'loadable', 'loadable'),
    [{ level: 'fail', remedy: expect.arrayContaining(['modprobe ip_vs']) }],
  ],
  ['shown by their files alone are there', { ...unknown, sysctls, ...withServer }, []],
  ['unknown are not checked', { ...unknown, sysctls, ipvs: { value: '' } }, [{ level: 'skipped' }]],
  ['absent are missed by nobody in another mode', { ...absent, ...withProcesses() }, []],
])('modules of a kube-proxy in ipvs mode that are %s', async (_, facts, told) => {
  expect(await find('ipvs-modules-missing', facts)).toMatchObject(told);
});

const left = { address: '10.0.0.99', device: 'eth0', source: '10.0.0.11', isOwn: true };
const localRoutes = { addresses: [], routes: [left], usualSource: null };

test('a local route that outlived its VIP is a warning, with the command that removes it', async () => {
  const sourceRoutes = planSourceRoutes(localRoutes, ordinaryConfig);
  const facts = await assessing({ localRoutes, sourceRoutes });
  expect(await find('vip-route-left-over', facts)).toMatchObject([
    {
      level: 'warn',
      title: expect.stringContaining('to 10.0.0.99 from 10.0.0.11'),
      remedy: ['ip route del local 10.0.0.99 dev eth0 table local proto 118 scope host src 10.0.0.11'],
    },
  ]);
});

test('what an agent has yet to add is no finding, and routes that cannot be read are not checked', async () => {
  expect(await find('vip-route-left-over', await assessing({ localRoutes: null }))).toMatchObject([
    { level: 'skipped', reason: 'the routes of table local cannot be read' },
  ]);
  expect(await find('vip-route-left-over', {})).toEqual([]);
});
