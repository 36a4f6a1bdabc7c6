import type { HostProcess } from '../../lib/kernel/host.ts';
import { locateServingFile, listTmpfilesLines } from '../../lib/keepalived/write.ts';
import { quoteWords, quoteText } from '../../lib/text.ts';
import { findWire, keepalivedName, listInstanceNames } from '../../lib/keepalived/read.ts';
import { dirname } from 'node:path';
import { formatEndpoint, type Endpoint, type Family, families } from '../../lib/net.ts';
import { type Ruleset, type Table, splitRule, parseRule } from '../../lib/iptables/rules.ts';
import type { HostFacts, NotChecked } from './facts.ts';
import { formatRunOnce, formatRemoveOnly, listUnnamedVips } from '../findings.ts';
import { isBalanced } from '../../config/options.ts';

/**
 * What is to be done to a keepalived.conf that somebody wrote.
 *
 * Goal: a remedy that is pasted on one master does not change how masters reach each other.
 * Tension: an instance of another virtual_router_id, authentication, version or list of peers takes the VIP while the others
 * hold it; and the files of the other masters cannot be seen from here.
 * Compromise: what goes into such a file is printed as comments that say where. Only the test and the reload are commands.
 * A whole file is printed only where none is, and nobody holds the VIP.
 */

/** The file that is to be changed, and who reads it. */
interface ForeignFile {
  readonly path: string;
  /** It and all that it includes. */
  readonly files: readonly string[];
  /** With what it includes in its place. */
  readonly text: string;
  readonly processes: readonly HostProcess[];
}

/** Has keepalived follow the agent's word. */
export function trackServing(file: ForeignFile, addresses: readonly string[], runDir: string): string[] {
  const names = addresses.flatMap((address) => listInstanceNames(file.text, address));
  const name = /\btrack_file\s+serving\b/.test(file.text) ? 'vipnat-serving' : 'serving';
  return [
    `# in ${nameFiles(file)}, before the first vrrp_instance:`,
    `#   track_file ${name} {`,
    `#     file "${locateServingFile(runDir)}"`,
    '#     weight 0',
    '#     init_file 0',
    '#   }',
    ...[...new Set(names)].flatMap((instance) => [
      `# in vrrp_instance ${quoteWords([instance])}, or in its track_file if it has one:`,
      '#   track_file {',
      `#     ${name}`,
      '#   }',
    ]),
    ...reload(file, runDir),
  ];
}

/** Gives it an instance with an address, as the other masters have it. */
export function addInstance(file: ForeignFile, address: string, flags: string, runDir: string): string[] {
  const { masters, advertSeconds } = findWire(file.text);
  // Masters still reach each other as before: one that changed to multicast alone would receive no adverts.
  const wire = [
    ...(masters.length === 0 ? [] : [`--peers=${masters.join(',')}`]),
    ...(advertSeconds === null ? [] : [`--advert=${Math.round(advertSeconds * 1000)}ms`]),
  ];
  return [
    ...copyInstance(address, file.path),
    '# only if no master has one: copy the vrrp_instance that this command prints, and the track_file before it',
    `vipnat keepalived ${[flags, ...wire].join(' ')}`,
    ...reload(file, runDir),
  ];
}

/** Where another master has an instance already. */
export function copyInstance(address: string, path: string): string[] {
  return [
    `# copy the vrrp_instance with ${address} from another master's file into ${quoteWords([path])}`,
    '# change its interface, its own unicast address and its priority. Everything else is the same on every master:',
    '# a master with another virtual_router_id, authentication, version or peers takes the VIP too',
  ];
}

/** Gives every master another virtual_router_id. If only one master has it, that one holds the VIP in addition to the others. */
export function changeVrid(file: ForeignFile, address: string, vrid: { from: number; to: number }): string[] {
  const names = [...new Set(listInstanceNames(file.text, address))];
  return [
    '# a master with another virtual_router_id takes the VIP too. Therefore keep this order:',
    `# 1. on every master that does not hold ${address}, stop keepalived: systemctl stop keepalived`,
    `# 2. on every master, in ${nameFiles(file)}, vrrp_instance ${names.map((name) => quoteWords([name])).join(', ')}:`,
    `#      virtual_router_id ${vrid.to}`,
    `#    instead of ${vrid.from}`,
    `# 3. on the VIP holder: ${describeReload(file)}`,
    '# 4. on the other masters: systemctl start keepalived',
  ];
}

/** Which of several files has a block is for whoever opens them to see. */
function nameFiles({ path, files }: ForeignFile): string {
  const included = files.filter((file) => file !== path);
  const more = included.length === 0 ? '' : ` or a file that it includes (${quoteWords(included)})`;
  return `${quoteWords([path])}${more}`;
}

/** Has systemd make the track file before keepalived starts: without its folder, keepalived 2.2.7 never reads it. */
export function makeAtBoot(runDir: string): string[] {
  return [
    '# to create the file at every boot: unless /etc/tmpfiles.d or /usr/lib/tmpfiles.d has a vipnat.conf, write',
    '# these lines to /etc/tmpfiles.d/vipnat-serving.conf:',
    ...listTmpfilesLines(runDir).map((line) => `#   ${line}`),
  ];
}

/** A reload keeps the VIP where it is, a restart moves it. keepalived 2.2.7 drops a track file whose folder is not there. */
function reload(file: ForeignFile, runDir: string): string[] {
  return [
    ...makeAtBoot(runDir),
    '# then test the file and reload keepalived. The VIP stays where it is',
    quoteWords(['mkdir', '-p', dirname(locateServingFile(runDir))]),
    describeReload(file),
  ];
}

function describeReload({ path, processes }: ForeignFile): string {
  const test = quoteWords(['keepalived', '--config-test', `--use-file=${path}`]);
  return `${test} && ${reloadKeepalived(processes)}`;
}

/** systemd knows the process by its unit; where there is none, as in a pod, a signal does the same. The first one started the others, and takes it. */
export function reloadKeepalived(processes: readonly HostProcess[]): string {
  const [first] = processes
    .filter(({ name, isSurelyHere }) => name === keepalivedName && isSurelyHere)
    .sort((left, right) => left.pid - right.pid);
  const unit = first === undefined ? 'keepalived' : findUnit(first);
  return unit === null ? `kill -HUP ${first?.pid}` : quoteWords(['systemctl', 'reload', unit]);
}

/** Has the kubelet restart this node's kube-proxy. */
export const restartProxy =
  'kubectl -n kube-system delete pod -l k8s-app=kube-proxy --field-selector spec.nodeName="$(hostname)"';

/**
 * Chains that kube-proxy makes in iptables mode and nobody else. KUBE-FIREWALL and the canary are the kubelet's, and network
 * policies are in KUBE- chains too. Source: pkg/proxy/iptables/proxier.go of Kubernetes 1.19 to 1.36.
 */
const proxyChain =
  /^KUBE-(?:SERVICES|EXTERNAL-SERVICES|NODEPORTS|POSTROUTING|MARK-MASQ|FORWARD|PROXY-FIREWALL|PROXY-CANARY|(?:SVC|SVL|SEP|EXT|FW|XLB)-[A-Z0-9]{16})$/;

/** The same for sed. */
const proxyChainPattern =
  'KUBE-\\(SERVICES\\|EXTERNAL-SERVICES\\|NODEPORTS\\|POSTROUTING\\|MARK-MASQ\\|FORWARD\\|PROXY-FIREWALL\\|PROXY-CANARY\\|\\(SVC\\|SVL\\|SEP\\|EXT\\|FW\\|XLB\\)-[A-Z0-9]\\{16\\}\\)';

/**
 * Takes kube-proxy's rules out of a backend, one rule and one chain at a time: no table is written whole, as what a
 * save prints of rules that nft made can be less than they are (iptables-nft 1.8.9 prints `ip saddr @s drop` as `-j DROP`).
 */
export function removeRules({ tables }: Ruleset, tool: string): string[] {
  const touched = [...tables].filter(([, chains]) =>
    [...chains.keys()].some((chain) => proxyChain.test(chain)),
  );
  return [
    `${tool}-save > /root/${tool}.old`,
    ...touched.flatMap(([table, chains]) => [
      ...listJumps(chains).map((words) => quoteWords([tool, '-t', table, '-D', ...words])),
      [
        `for step in -F -X; do ${tool} -t ${table} -S`,
        `sed -n "s/^-N \\(${proxyChainPattern}\\)\$/$step \\1/p"`,
        `xargs -r -L1 ${tool} -t ${table}; done`,
      ].join(' | '),
    ]),
    '# kube-proxy writes again what it still uses there:',
    restartProxy,
  ];
}

/** The rules of foreign chains that lead there, each by its chain and its own words. */
function listJumps(chains: Table): string[][] {
  const leadsThere = (text: string) => proxyChain.test(parseRule(text).target ?? '');
  return [...chains]
    .filter(([chain]) => !proxyChain.test(chain))
    .flatMap(([chain, rules]) => rules.filter(leadsThere).map((text) => [chain, ...splitRule(text)]));
}

/**
 * What corrects vipnat's rules: a running agent does it when it restarts, without one a single run does, which keeps
 * the rules of virtual IPs that no --vip names.
 */
export function converge({ agent, assessment, flags, units }: HostFacts): string[] {
  if (agent !== null) return restartAgent({ units });
  return [formatRunOnce(flags, findUnnamed(assessment))];
}

/** The same where rules may be left over: whether those of a virtual IP are still wanted, a person has to say. */
export function convergeOrRemove(facts: HostFacts): string[] {
  const unnamed = findUnnamed(facts.assessment);
  if (facts.agent !== null || unnamed.length === 0) return converge(facts);
  return [
    `# no --vip names ${unnamed.map(formatEndpoint).join(', ')}, and vipnat has rules for it here`,
    `# if it is still wanted, name it too: ${formatRunOnce(facts.flags, unnamed)}`,
    `# if it is no longer wanted: ${formatRemoveOnly(unnamed)}`,
  ];
}

function findUnnamed(assessment: HostFacts['assessment']): Endpoint[] {
  return 'unknown' in assessment ? [] : listUnnamedVips(assessment.value);
}

/** Restarts the agent by the program that started it. */
export function restartAgent({ units }: Pick<HostFacts, 'units'>): string[] {
  if (units.has('vipnat')) return ['systemctl restart vipnat'];
  return [
    '# this host has no vipnat unit. The kubelet restarts its container:',
    "crictl stop $(crictl ps --name '^vipnat$' -q)",
  ];
}

/** The package, where this host has Debian's tool for it. */
export function install(name: string, { tools }: Pick<HostFacts, 'tools'>): string[] {
  return [
    tools.has('apt-get') ? `apt-get install ${name}` : `# install the package that Debian calls ${name}`,
  ];
}

/**
 * Whether an agent balances this VIP now: only then what served it before is no longer needed. This excludes rules that differ, and
 * a VIP that is not balanced.
 */
export function isBalancedHere({ address, port }: Endpoint, { agent, assessment }: HostFacts): boolean {
  if (agent === null || 'unknown' in assessment) return false;
  const { decisions, plan } = assessment.value;
  const own = decisions.find(({ vip }) => vip.address === address && vip.port === port);
  return own !== undefined && isBalanced(own) && plan.tables.every(({ drift }) => drift.length === 0);
}

/** What is said instead of taking away what serves the API. */
export const migrateFirst: readonly string[] = [
  '# do not stop it: the API may depend on it until an agent balances the VIP. Follow docs/migrate.md',
];

/** The systemd unit that a process belongs to; null for none. */
export function findUnit({ group }: HostProcess): string | null {
  return /\/([\w@.:-]+\.service)$/.exec(group)?.[1] ?? null;
}

/** The families of virtual IPs. */
export function listFamilies(vips: readonly Endpoint[]): Family[] {
  return families.filter((family) => vips.some((vip) => vip.family === family));
}

/** A process whose network namespace may not be asked for is nobody's fault. */
export function describeElsewhere({ name, pid }: HostProcess): NotChecked {
  return {
    unknown: `this user may not ask whether ${quoteText(name)} (pid ${pid}) is in this network namespace: run as root`,
  };
}
