import { describe, test, expect } from '@jest/globals';
import {
  config,
  makeProcess,
  kubeconfig,
  makeFacts,
  withConfiguration,
  withServer,
} from '../../../support/doctor/well-host.ts';
import { lookOnce, restoreCaptures } from '../../../support/agent/captured-host.ts';
import type { Assessment } from '../../../../agent/decide/decision.ts';
import { examine, type Outcome } from '../../../../cli/doctor/examine.ts';
import { type HostFacts, ipvsModules, filePaths } from '../../../../cli/doctor/facts.ts';

/** The virtual IP that is asked about. */
const vip = '10.77.0.50';
/** How remedies and steps name it. */
const flags = `--vip=${vip}:6443`;
/** What is captured of kube-proxy in iptables mode. */
const iptables = ['iptables-nft-save.three-endpoints.txt'];
/** None of the files of a cluster. */
const noFiles: HostFacts['files'] = new Map(
  Object.values(filePaths).map((path) => [path, { value: path === filePaths.hosts ? '' : null }] as const),
);

/** A look at a host without a rule of vipnat's, in a cluster or not; it does not forward yet. */
async function readHost(captures: readonly string[] = [], own: readonly string[] = []): Promise<Assessment> {
  const assessment = await lookOnce(restoreCaptures(captures), config);
  const { observation } = assessment;
  const addresses = ['10.77.0.11', ...own].map(
    (address) => ({ family: 'ipv4', address, device: 'eth0' }) as const,
  );
  const missing = {
    ...{ name: 'net.ipv4.ip_forward', command: 'sysctl -w net.ipv4.ip_forward=1', advertised: [] },
    ...({ family: 'ipv4', isOwn: true } as const),
  };
  return { ...assessment, observation: { ...observation, addresses }, missingSwitches: [missing] };
}

/** What doctor tells of Debian with keepalived's package and nothing else of a cluster, but for these facts. */
async function meet(changes: Partial<HostFacts> = {}) {
  const facts = await makeFacts({
    ...{ agent: null, hasMemory: { value: false }, drain: { value: null } },
    assessment: { value: await readHost() },
    processes: { value: [] },
    listeners: { value: [] },
    keepalived: { value: { path: '/etc/keepalived/keepalived.conf', text: null, files: [] } },
    trackFile: { value: { content: null, isWatched: null } },
    files: noFiles,
    vipHolderAnswers: new Map([[vip, { kind: 'unreachable', code: 'EHOSTUNREACH' }]]),
    serving: { value: new Map() },
    kubeProxy: { status: null, ipvs: null },
    units: new Set(['keepalived']),
    ...changes,
  });
  const found = examine(facts);
  const told = found.topics.flatMap(({ outcomes }) => outcomes);
  return {
    ...found,
    troubles: told.filter(({ level }) => level === 'warn' || level === 'fail'),
    pending: told.flatMap((one) => (one.level === 'skipped' && one.pending === true ? [one.code] : [])),
    titles: found.next.map(({ title }) => title),
    commands: found.next.flatMap(({ commands }) => commands).filter((line) => !line.startsWith('#')),
    comments: found.next.flatMap(({ commands }) => commands).filter((line) => line.startsWith('#')),
  };
}

const keepalived = makeProcess('keepalived');
const withInstance = withConfiguration(
  `vrrp_instance x {\n virtual_router_id 51\n virtual_ipaddress { ${vip} }\n}`,
);
/** What kubeadm leaves on a master. */
const masterFiles = new Map([
  ...noFiles,
  [filePaths.apiserverManifest, { value: '    - kube-apiserver\n    - --shutdown-delay-duration=10s\n' }],
]);
/** Findings in short. */
const levelsOf = (troubles: readonly Outcome[]) => troubles.map(({ code, level }) => `${code} ${level}`);

const elsewhere = [{ family: 'ipv4', address: '10.9.0.11', device: 'ens3', prefixLength: 24 }] as const;
const linkHolders = { value: new Map([[vip, { mac: '02:42:0a:4d:00:0c', addresses: [] }]]) };
const atVip = new Map([...masterFiles, [filePaths.admin, kubeconfig(`https://${vip}:6443`)]]);

describe('on a host with nothing', () => {
  test('nothing is wrong, and what is missing is only not there yet', async () => {
    const { stage, troubles, pending } = await meet();
    expect({ stage, troubles }).toEqual({ stage: 'before-installation', troubles: [] });
    for (const code of [
      ...['forwarding-off', 'vip-nowhere', 'keepalived-not-running', 'no-apiserver-known'],
      ...['apiserver-down', 'kubeconfig-at-vip', 'agent-not-running', 'rules-differ'],
    ])
      expect(pending).toContain(code);
  });

  test('the steps lead from keepalived by the cluster to the agent', async () => {
    const { titles, commands, comments } = await meet();
    expect(titles.map((title) => title.replace(/[.,:].*$/, ''))).toEqual([
      ...['Have keepalived hold 10', 'Switch IP forwarding on', 'Create the cluster'],
      ...['Preview what vipnat would write here', 'Start the agent on each control-plane node'],
      'Check that the VIP is balanced',
    ]);
    expect(comments.join('\n')).toContain(`kubeadm init --control-plane-endpoint ${vip}:6443`);
    expect(comments.join('\n')).toContain('shutdown delay');
    expect(commands.at(0)).toMatch(/^mkdir -p \/etc\/keepalived/);
    expect(commands.slice(-3)).toEqual([
      `vipnat plan ${flags}`,
      `vipnat manifest daemonset ${flags} > vipnat.yaml`,
      `vipnat status ${flags}`,
    ]);
  });

  test('where the unit of the agent is installed, it is started by it', async () => {
    const { commands } = await meet({ units: new Set(['vipnat', 'keepalived']) });
    expect(commands).toContain('systemctl enable --now vipnat');
  });

  test.each([vip, '10.77.0.11'])('whose own address is %s: no wrong VIP is built on', async (address) => {
    const interfaces = [{ family: 'ipv4', address, device: 'ens3', prefixLength: 24 }] as const;
    const { troubles, titles } = await meet({ interfaces, gateways: [] });
    const unfit = [{ level: 'fail', title: `${vip} is the own address of ens3` }];
    expect(troubles.filter(({ code }) => code === 'vip-unfit')).toMatchObject(address === vip ? unfit : []);
    expect(titles.some((step) => step.startsWith('Have keepalived hold'))).toBe(address !== vip);
  });

  test('a keepalived that holds the VIP is no step any more', async () => {
    const { titles, troubles } = await meet({
      ...withInstance,
      processes: { value: [keepalived] },
      assessment: { value: await readHost([], [vip]) },
    });
    expect(troubles).toEqual([]);
    expect(titles[0]).toMatch(/^Switch IP forwarding on/);
  });

  test('tools that are missing are named with their packages, and come first', async () => {
    const { stage, troubles, titles } = await meet({
      tools: new Set(['apt-get']),
      assessment: { unknown: 'iptables-nft-save is not in PATH' },
    });
    expect(stage).toBe('before-installation');
    expect(troubles).toMatchObject([
      { code: 'no-firewall-tool', remedy: ['apt-get install iptables'] },
      { code: 'host-unreadable', remedy: ['apt-get install iptables'] },
    ]);
    expect(titles).toEqual(['Fix the findings above, then run vipnat doctor again.']);
  });

  test.each([
    ['', ['iptables-nft-save']],
    [', also where PATH lacks /usr/sbin', []],
  ])('without rights nothing is concluded, but how to look%s', async (_, tools) => {
    const { stage, troubles, next } = await meet({
      rights: { value: { hasNetAdmin: false, hasNetRaw: false } },
      assessment: { unknown: 'iptables-nft-save is not permitted' },
      tools: new Set(tools),
    });
    expect({ stage, next }).toEqual({ stage: 'unknown', next: [] });
    expect(troubles.slice(0, 2)).toMatchObject([
      { code: 'not-permitted', remedy: [`sudo vipnat doctor ${flags}`] },
      { code: 'host-unreadable', remedy: [`sudo vipnat doctor ${flags}`] },
    ]);
  });
});

describe('a virtual IP that does not fit', () => {
  test('as it is in no network of this host, is said, and nothing is built on it', async () => {
    const { troubles, titles, commands } = await meet({ interfaces: elsewhere });
    expect(troubles).toMatchObject([
      { code: 'vip-off-network', title: `${vip} is in no network of this host (ens3 10.9.0.11/24)` },
    ]);
    expect({ titles, commands }).toEqual({
      titles: ['Fix the findings above, then run vipnat doctor again.'],
      commands: [`vipnat doctor ${flags}`],
    });
  });

  test('is one that keepalived was told the interface of, where it is meant so', async () => {
    const { troubles } = await meet({ ...withInstance, interfaces: elsewhere });
    expect(levelsOf(troubles)).toEqual(['keepalived-not-running warn']);
  });

  test('as a stranger has it, is said, and nothing is built on it', async () => {
    const { troubles, commands } = await meet({ linkHolders });
    expect(levelsOf(troubles)).toEqual(['vip-held-without-vrrp warn']);
    expect(commands).toEqual([`vipnat doctor ${flags}`]);
  });

  test('as kubeconfigs name it and nobody has it, is a failure before an installation too', async () => {
    const { troubles } = await meet({ files: atVip });
    expect(levelsOf(troubles)).toContain('vip-nowhere fail');
  });

  test('as keepalived is to hold it and nobody has it, is one as well', async () => {
    const { troubles } = await meet({ ...withInstance, processes: { value: [keepalived] } });
    expect(levelsOf(troubles)).toEqual(['vip-nowhere fail']);
  });
});

/** What takes something away that serves. */
const stops = /\bstop\b|disable|kill|addr del|restart|rm |mv \/etc\/kubernetes|iptables.* -D|ipvsadm/;

const haproxy = makeProcess('haproxy', { pid: 20, group: '/system.slice/haproxy.service' });
const served = { files: masterFiles, ...withInstance };
test.each<[string, string, Partial<HostFacts>]>([
  [
    'haproxy',
    'from-keepalived--haproxy',
    {
      ...served,
      vipHolderAnswers: new Map([[vip, { kind: 'refused' }]]),
      processes: { value: [keepalived, haproxy] },
      listeners: { value: [{ family: 'ipv4', address: vip, port: 6443, pid: 20 }] },
    },
  ],
  ['kube-vip', 'from-kube-vip', { files: masterFiles, processes: { value: [makeProcess('kube-vip')] } }],
  ['a holder elsewhere that sends no VRRP', 'from-kube-vip', { files: masterFiles, linkHolders }],
  ['a virtual server', 'before-either', { ...served, ...withServer }],
])('what serves the API today is never to be stopped first: %s', async (_, place, changes) => {
  const { troubles, comments, commands } = await meet(changes);
  expect(comments.join('\n')).toContain(`docs/migrate.md#${place}`);
  const pasted = troubles.flatMap((one) => ('remedy' in one ? one.remedy : []));
  const run = [...commands, ...pasted.filter((line) => !line.startsWith('#'))];
  expect(run.filter((line) => stops.test(line))).toEqual([]);
  expect(troubles.filter(({ level }) => level === 'fail')).toEqual([]);
});

describe('a host of a cluster', () => {
  test.each([
    ['iptables mode', iptables],
    ['ipvs mode', ['iptables-legacy-save.ipvs-three-endpoints.txt', 'proc-net-ip_vs.three-endpoints.txt']],
    ['nftables mode', ['nft-kube-proxy.three-endpoints.json']],
  ])('that runs an apiserver, with kube-proxy in %s, is led to the agent', async (_, captures) => {
    const { troubles, titles } = await meet({
      files: masterFiles,
      assessment: { value: await readHost(captures) },
      processes: { value: [makeProcess('kube-proxy')] },
      modules: new Map(ipvsModules.map((name) => [name, 'here'] as const)),
      ipvs: { value: 'TCP  0A600001:01BB rr\n' },
    });
    expect(levelsOf(troubles).filter((one) => one.endsWith('fail'))).toEqual([]);
    expect(titles.some((title) => title.startsWith('Create the cluster'))).toBe(false);
    expect(titles).toContain('Start the agent on each control-plane node.');
  });

  test('that runs none is a worker, and is told where to go', async () => {
    const files = new Map([...noFiles, [filePaths.kubelet, kubeconfig('https://elsewhere:6443')]]);
    const { titles, commands } = await meet({
      files,
      assessment: { value: await readHost(iptables) },
      processes: { value: [makeProcess('kube-proxy')] },
    });
    expect(titles.at(-1)).toMatch(/^Go to the control-plane nodes/);
    expect(commands).toEqual([]);
  });

  test('whose certificate lacks a VIP that nobody uses yet is only warned', async () => {
    const endpoint = '10.77.0.11:6443';
    const serving = {
      alternativeNames: 'DNS:kubernetes',
      validTo: new Date('2027-11-21T12:00:00Z'),
      clockAheadMs: 0,
    };
    const changes = { files: masterFiles, serving: { value: new Map([[endpoint, serving]]) } };
    expect(levelsOf((await meet(changes)).troubles)).toContain('certificate-lacks-vip warn');
    const { troubles } = await meet({ ...changes, files: atVip });
    expect(levelsOf(troubles)).toContain('certificate-lacks-vip fail');
    expect(JSON.stringify(troubles)).toContain('phase certs apiserver --apiserver-cert-extra-sans=');
  });
});

describe('a host on which an agent has run is judged as ever:', () => {
  const cases: readonly [string, Partial<HostFacts>][] = [
    ['it runs', { agent: { version: '0.1.0', pid: 9, since: '' } }],
    ['it has left what it remembers', { hasMemory: { value: true } }],
    ['the kubelet is to run it', { files: new Map([...noFiles, [filePaths.agentManifest, { value: 'x' }]]) }],
  ];

  test.each(cases)('%s', async (_, changes) => {
    const { stage, next, pending, troubles } = await meet(changes);
    expect({ stage, next, pending }).toEqual({ stage: 'installed', next: [], pending: [] });
    expect(levelsOf(troubles)).toContain('vip-nowhere fail');
  });

  test('it has left rules', async () => {
    const { assessment } = await makeFacts();
    expect(await meet({ assessment })).toMatchObject({ stage: 'installed', next: [] });
  });
});

test('what cannot be seen is not taken for not there yet', async () => {
  const unseen = { unknown: "this container does not see the host's /etc/kubernetes" };
  const files = new Map(Object.values(filePaths).map((path) => [path, unseen] as const));
  const { pending, topics } = await meet({ files, processes: unseen, keepalived: unseen, trackFile: unseen });
  const reasons = topics
    .flatMap(({ outcomes }) => outcomes)
    .filter((one) => one.level === 'skipped' && one.pending !== true)
    .map(({ code }) => code);
  for (const code of ['kubeconfig-at-vip', 'no-shutdown-delay', 'keepalived-lacks-vip', 'track-file-stale']) {
    expect(pending).not.toContain(code);
    expect(reasons).toContain(code);
  }
});
