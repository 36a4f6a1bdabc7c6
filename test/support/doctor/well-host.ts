import { ordinaryConfig } from '../agent/running-agent.ts';
import { toEndpoint } from '../fakes/endpoints.ts';
import type { Serving } from '../../../lib/http/client.ts';
import type { Assessment } from '../../../agent/decide/decision.ts';
import { restoreCaptures, lookOnce } from '../agent/captured-host.ts';
import { applyPlan } from '../../../agent/sync.ts';
import type { Health } from '../../../agent/health/usable.ts';
import { type ServicesFacts, type HostFacts, sysctlNames } from '../../../cli/doctor/facts.ts';
import { type Outcome, diagnose } from '../../../cli/doctor/examine.ts';

export const config = { ...ordinaryConfig, vips: [toEndpoint('10.77.0.50:6443')] };

const apiservers = ['10.77.0.11:6443', '10.77.0.12:6443', '10.77.0.13:6443'];
const now = new Date('2026-11-21T12:00:00Z');

/** What an apiserver of this cluster shows of itself. */
export const serving: Serving = {
  alternativeNames: 'DNS:kubernetes, IP Address:10.96.0.1, IP Address:10.77.0.50',
  validTo: new Date('2027-11-21T12:00:00Z'),
  clockAheadMs: 200,
};

export const keepalivedText = `vrrp_instance vip-10.77.0.50 {
  virtual_router_id 51
  priority 110
  virtual_ipaddress {
    10.77.0.50/32
  }
  track_file {
    serving
  }
}
track_file serving {
  file "/run/vipnat/keepalived/serving"
  weight 0
}
`;

export const keepalived = { pid: 7, isSurelyHere: true, name: 'keepalived', arguments: [], group: '' };

/** Its rules are written, and m1 of three masters holds the VIP. */
export async function assessWell(): Promise<Assessment> {
  const kernel = restoreCaptures(['iptables-nft-save.three-endpoints.txt']);
  await applyPlan(kernel, (await lookOnce(kernel, config)).plan);
  const assessment = await lookOnce(kernel, config);
  const addresses = ['10.77.0.11', '10.77.0.50'].map(
    (address) => ({ family: 'ipv4', address, device: 'eth0' }) as const,
  );
  const ready: Health = { state: 'ready', reason: '', staleConnections: 'none' };
  return {
    ...assessment,
    observation: { ...assessment.observation, addresses },
    health: new Map(apiservers.map((text) => [text, ready])),
  };
}

/** A host that is well, but for this of what was read. */
export async function assessing(parts: Partial<Assessment>): Promise<Pick<HostFacts, 'assessment'>> {
  return { assessment: { value: { ...(await assessWell()), ...parts } } };
}

/** The same of what was observed. */
export async function observing(
  parts: Partial<Assessment['observation']>,
): Promise<Pick<HostFacts, 'assessment'>> {
  return await assessing({ observation: { ...(await assessWell()).observation, ...parts } });
}

/** The VIP is on no interface of it. */
export async function withoutVip(): Promise<Pick<HostFacts, 'assessment'>> {
  const { addresses } = (await assessWell()).observation;
  return await observing({ addresses: addresses.filter(({ address }) => address !== '10.77.0.50') });
}

/** The first of its apiservers is so. */
export async function withFirst(first: Partial<Health>): Promise<Pick<HostFacts, 'assessment'>> {
  const { health } = await assessWell();
  const ready: Health = { state: 'ready', reason: 'x', staleConnections: 'none' };
  return await assessing({ health: new Map([...health, ['10.77.0.11:6443', { ...ready, ...first }]]) });
}

const unasked = { unknown: 'not asked: the Kubernetes API needs --kubeconfig' };

/** Services have nothing on this host, and nobody asked the API for them. */
export const noServices: ServicesFacts = {
  host: {
    ...{ balancer: null, activity: null, tables: [], unread: null },
    ...{ runDir: '/run/vipnat-lb', hasConfiguration: false },
  },
  nftVersion: null,
  keepalived: { value: { path: '/run/vipnat-lb/keepalived.conf', text: null, refusal: '' } },
  cilium: null,
  calicoEbpf: null,
  strictTunnels: { value: [] },
  ...{ cluster: unasked, webhook: unasked, poolUsers: unasked, gateWaits: unasked },
};

/** All facts of a host that lacks nothing, but for these. */
export async function makeFacts(changes: Partial<HostFacts> = {}): Promise<HostFacts> {
  return {
    config,
    flags: '--vip=10.77.0.50:6443',
    version: '0.1.0',
    now,
    rights: { value: { hasNetAdmin: true, hasNetRaw: true } },
    tools: new Set(['iptables-nft-save', 'nft', 'inotifywait', 'apt-get']),
    assessment: { value: await assessWell() },
    forwardChains: { value: [] },
    ...{ earlyRules: { value: [] }, inputRules: { value: [] } },
    ipvs: { value: null },
    ...withSysctl(sysctlNames.conntrackCount, '79'),
    interfaces: [{ family: 'ipv4', address: '10.77.0.11', device: 'eth0', prefixLength: 24 }],
    gateways: ['10.77.0.1'],
    processes: { value: [keepalived, apiserver] },
    listeners: { value: [{ family: 'ipv6', address: '::', port: 6443, pid: 8 }] },
    keepalived: { value: { path: conf, text: keepalivedText, files: [conf] } },
    trackFile: { value: { content: '0', isWatched: true } },
    files: new Map<string, { value: string | null }>([
      ['/etc/hosts', { value: '127.0.0.1 localhost\n10.77.0.50 cluster-endpoint # the VIP\n' }],
      ...kubeconfigPaths.map((path) => [path, kubeconfig('https://10.77.0.11:6443')] as const),
      ['/etc/kubernetes/admin.conf', kubeconfig('https://cluster-endpoint:6443')],
    ]),
    hasMemory: { value: true },
    drain: { value: null },
    adverts: { value: [] },
    vipHolderAnswers: new Map(),
    linkHolders: { value: new Map([['10.77.0.50', null]]) },
    serving: { value: new Map(apiservers.map((text) => [text, serving])) },
    kubeProxy: { status: 200, ipvs: null },
    units: new Set(['vipnat', 'keepalived', 'kubelet']),
    modules: new Map(),
    agent: { version: '0.1.0', pid: 9, since: now.toISOString() },
    seatProcesses: { value: [] },
    services: noServices,
    ...changes,
  };
}

const kubeconfigPaths = ['controller-manager', 'scheduler', 'kubelet', 'super-admin'].map(
  (name) => `/etc/kubernetes/${name}.conf`,
);
const allKubeconfigs = [...kubeconfigPaths, '/etc/kubernetes/admin.conf'];

export const conf = '/etc/keepalived/keepalived.conf';
export const kubeconfig = (server: string) => ({ value: `clusters:\n- cluster:\n    server: ${server}\n` });
export const withFile = (path: string, value: { value: string }): Partial<HostFacts> => ({
  files: new Map<string, { value: string | null }>([
    ['/etc/hosts', { value: '10.77.0.50 cluster-endpoint\n' }],
    ...allKubeconfigs.map((name) => [name, { value: null }] as const),
    [path, value],
  ]),
});
export const withConfiguration = (text: string): Partial<HostFacts> => ({
  keepalived: { value: { path: conf, text, files: [conf] } },
});
export const makeProcess = (name: string, rest: object = {}) => ({
  ...{ pid: 20, isSurelyHere: true, name, arguments: [name], group: '' },
  ...rest,
});
const delayed = { pid: 8, arguments: ['x', '--shutdown-delay-duration=9s'] };
export const apiserver = makeProcess('kube-apiserver', delayed);
/** What runs beside keepalived and the apiserver. */
export const withProcesses = (...others: readonly ReturnType<typeof makeProcess>[]): Partial<HostFacts> => ({
  processes: { value: [keepalived, apiserver, ...others] },
});
/** A virtual server of IPVS for the VIP. */
export const withServer: Partial<HostFacts> = {
  ipvs: { value: 'TCP  0A4D0032:192B rr\n  -> 0A4D000D:192B      Masq    1      0          0         \n' },
};
const spoken = { vrid: 51, priority: 100, addresses: ['10.77.0.50'] } as const;
export const advert = { family: 'ipv4', source: '10.77.0.12', ...spoken } as const;
export const own = { ...advert, source: '10.77.0.11' };
export const withSysctl = (name: string, value: string) => ({
  sysctls: new Map([
    [sysctlNames.conntrackCount, '1'],
    [sysctlNames.conntrackMax, '100'],
    [sysctlNames.conntrackLoose, '1'],
    [name, value],
  ]),
});

/** What is told of a host that is well but for these facts: everything that is not ok. */
export async function tell(changes: Partial<HostFacts> = {}): Promise<readonly Outcome[]> {
  const outcomes = diagnose(await makeFacts(changes)).flatMap((topic) => topic.outcomes);
  return outcomes.filter(({ level }) => level !== 'ok');
}

/** A table of text: a line for each row, with `|` between cells. */
export function readTable(text: string): string[][] {
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  return lines.map((line) => line.split('|').map((cell) => cell.trim()));
}
