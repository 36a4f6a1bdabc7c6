import { type HostFacts, filePaths } from '../../../cli/doctor/facts.ts';
import type { Assessment } from '../../../agent/decide/decision.ts';
import { lookOnce, restoreCaptures } from '../agent/captured-host.ts';
import { config, makeFacts, makeProcess, withConfiguration } from './well-host.ts';
import { examine, type Outcome } from '../../../cli/doctor/examine.ts';

/** The virtual IP that is asked about. */
export const vip = '10.77.0.50';
/** How remedies and steps name it. */
export const flags = `--vip=${vip}:6443`;
/** What is captured of kube-proxy in iptables mode. */
export const iptables = ['iptables-nft-save.three-endpoints.txt'];
/** None of the files of a cluster. */
export const noFiles: HostFacts['files'] = new Map(
  Object.values(filePaths).map((path) => [path, { value: path === filePaths.hosts ? '' : null }] as const),
);

/** A look at a host without a rule of vipnat's, in a cluster or not; it does not forward yet. */
export async function readHost(
  captures: readonly string[] = [],
  local: readonly string[] = [],
): Promise<Assessment> {
  const assessment = await lookOnce(restoreCaptures(captures), config);
  const { observation } = assessment;
  const addresses = ['10.77.0.11', ...local].map(
    (address) => ({ family: 'ipv4', address, device: 'eth0' }) as const,
  );
  const missing = {
    ...{ name: 'net.ipv4.ip_forward', command: 'sysctl -w net.ipv4.ip_forward=1', advertised: [] },
    ...({ family: 'ipv4', isOwn: true } as const),
  };
  return { ...assessment, observation: { ...observation, addresses }, missingSwitches: [missing] };
}

/** What doctor tells of Debian with keepalived's package and nothing else of a cluster, but for these facts. */
export async function meet(changes: Partial<HostFacts> = {}) {
  const facts = await makeFacts({
    agent: null,
    hasMemory: { value: false },
    drain: { value: null },
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

/** A keepalived that runs. */
export const keepalived = makeProcess('keepalived');
/** Its configuration has the virtual IP. */
export const withInstance = withConfiguration(
  `vrrp_instance x {\n virtual_router_id 51\n virtual_ipaddress { ${vip} }\n}`,
);
/** What kubeadm leaves on a master. */
export const masterFiles = new Map([
  ...noFiles,
  [filePaths.apiserverManifest, { value: '    - kube-apiserver\n    - --shutdown-delay-duration=10s\n' }],
]);
/** Findings in short. */
export const levelsOf = (troubles: readonly Outcome[]) =>
  troubles.map(({ code, level }) => `${code} ${level}`);
