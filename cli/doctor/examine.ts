import {
  type HostFacts,
  type Checks,
  type Check,
  type Finding,
  filePaths,
  isKeepalivedHere,
  findFile,
  isAbsent,
  findValue,
} from './facts.ts';
import { lacksFirewallTool, toolChecks, forwardingChecks } from './checks/host.ts';
import { virtualIpChecks } from './checks/vip.ts';
import { describeStart, keepalivedChecks, hostDrainedChecks } from './checks/keepalived.ts';
import { apiserverChecks } from './checks/apiservers.ts';
import { formatEndpoint, includesEndpoint } from '../../lib/net.ts';
import { hasOwnRules, isApiserver, localRouteChecks, ruleChecks } from './checks/rules.ts';
import type { HostProcess } from '../../lib/kernel/host.ts';
import { findInstance } from '../../lib/keepalived/read.ts';
import { listServers, kubeconfigChecks, kubeProxyChecks } from './checks/kube-proxy.ts';
import { serviceChecks } from './checks/services.ts';

/** All that doctor has to tell of a host. */
export interface Examination {
  readonly stage: Stage;
  readonly topics: readonly TopicOutcome[];
  /** What to do next, in order; none but before an installation. */
  readonly next: readonly NextStep[];
}

/** Makes every check, and judges what they say by how far this host is. Pure. */
export function examine(facts: HostFacts): Examination {
  const found = diagnose(facts);
  // Without a virtual IP it is only about Services, which are there.
  const stage = facts.config.vips.length === 0 ? 'installed' : findStage(facts);
  if (stage !== 'before-installation') return { stage, topics: found, next: [] };
  const topics = found.map(({ name, outcomes }) => ({
    name,
    outcomes: outcomes.map((outcome) => foresee(outcome, facts)),
  }));
  return { stage, topics, next: listNextSteps(facts, topics) };
}

/** All checks, in the order in which they are reported; in a topic are those that a person thinks of together. */
export const topics: Readonly<Record<string, Checks>> = {
  'rights, tools, kernel': toolChecks,
  forwarding: forwardingChecks,
  'virtual IP, keepalived': { ...virtualIpChecks, ...localRouteChecks, ...keepalivedChecks },
  apiservers: { ...apiserverChecks, ...hostDrainedChecks, ...kubeconfigChecks },
  'kube-proxy': kubeProxyChecks,
  "vipnat's rules, foreign rules": ruleChecks,
  Services: serviceChecks,
};

/** The topics that are looked at on a host that has Services, and no virtual IP of the API. */
const withoutVips: readonly string[] = ['rights, tools, kernel', 'kube-proxy', 'Services'];

/** All codes, in that order. */
export const findingCodes: readonly string[] = Object.values(topics).flatMap((checks) => Object.keys(checks));

/** What a check found. */
export type Found = { readonly code: string } & Required<Finding>;

/** What became of one check. */
export type Outcome =
  | { readonly code: string; readonly level: 'ok' }
  | Found
  | {
      readonly code: string;
      readonly level: 'skipped';
      /** One phrase. */
      readonly reason: string;
      /** Only where what it is about is not there yet, as before an installation. */
      readonly pending?: true;
    };

/** What became of a topic's checks: none where what they are about is not on this host. */
export interface TopicOutcome {
  readonly name: string;
  readonly outcomes: readonly Outcome[];
}

/** Makes every check; without a virtual IP of the API those that are about none. Pure. */
export function diagnose(facts: HostFacts): TopicOutcome[] {
  const isChecked = ([name]: [string, Checks]) => facts.config.vips.length > 0 || withoutVips.includes(name);
  const made = Object.entries(topics).filter(isChecked);
  return made.map(([name, checks]) => ({
    name,
    outcomes: Object.entries(checks).flatMap(([code, check]) => toOutcomes(code, check, facts)),
  }));
}

function toOutcomes(code: string, { levels: [level], find }: Check, facts: HostFacts): Outcome[] {
  const verdict = find(facts);
  if (verdict === 'not on this host') return [];
  if (verdict === null || 'notHere' in verdict) return [{ code, level: 'ok' }];
  if ('unknown' in verdict) return [{ code, level: 'skipped', reason: verdict.unknown }];
  const { findings, gaps } = 'title' in verdict ? { findings: [verdict], gaps: [] } : verdict;
  const results: Outcome[] = [
    ...findings.map((finding) => ({ code, level, ...finding })),
    ...gaps.map((reason): Outcome => ({ code, level: 'skipped', reason })),
  ];
  return results.length === 0 ? [{ code, level: 'ok' }] : results;
}

/** Something to do next. */
export interface NextStep {
  /** One sentence: what to do. */
  readonly title: string;
  /** Lines for a shell on this host, as of a remedy. */
  readonly commands: readonly string[];
}

/** What to do on a host on which no agent has run yet, in order. Nothing in it stops what serves the API. Pure. */
function listNextSteps(facts: HostFacts, topics: readonly TopicOutcome[]): NextStep[] {
  const results = topics.flatMap(({ outcomes }) => outcomes);
  const findings = describeFindings(results, facts);
  if (lacksFirewallTool(facts.tools) || !isAddressFit(results, facts)) return findings;
  if (isWorker(facts)) {
    const title = 'Go to the control-plane nodes. vipnat runs there, and this node runs no apiserver.';
    return [...findings, { title, commands: [`# on each control-plane node: vipnat doctor ${facts.flags}`] }];
  }
  const serving = results.flatMap(describeServing);
  if (serving.length > 0) return [...findings, ...serving, describeAhead(facts)];
  return [
    ...findings,
    ...holdAddress(facts),
    ...openForwarding(facts),
    ...createCluster(facts),
    ...installAgent(facts),
  ];
}

/** Nothing is built on an address that another host has or should have, or that no neighbour asks for. */
function isAddressFit(results: readonly Outcome[], facts: HostFacts): boolean {
  const isFound = (code: string, level: 'warn' | 'fail' = 'warn') =>
    results.some((one) => one.code === code && one.level === level);
  if (isFound('vip-unfit', 'fail')) return false;
  return !isFound('vip-off-network') && (hasCluster(facts) || !isFound('vip-held-without-vrrp'));
}

/** Who serves the API at a virtual IP today: where docs/migrate.md begins with each. */
const codeToMigration: ReadonlyMap<string, string> = new Map([
  ['foreign-listener', 'from-keepalived--haproxy'],
  ['foreign-dnat', 'before-either'],
  ['foreign-virtual-server', 'before-either'],
  ['kube-vip-running', 'from-kube-vip'],
  ['vip-held-without-vrrp', 'from-kube-vip'],
]);

function describeFindings(results: readonly Outcome[], facts: HostFacts): NextStep[] {
  const { flags } = facts;
  const isServing = ({ code }: Outcome) => codeToMigration.has(code) && isAddressFit(results, facts);
  const isOpen = (outcome: Outcome) =>
    (outcome.level === 'fail' || outcome.level === 'warn') && !isServing(outcome);
  if (!results.some(isOpen)) return [];
  return [
    { title: 'Fix the findings above, then run vipnat doctor again.', commands: [`vipnat doctor ${flags}`] },
  ];
}

function describeServing(outcome: Outcome): NextStep[] {
  const place = codeToMigration.get(outcome.code);
  if (place === undefined || outcome.level !== 'warn') return [];
  return [
    {
      title: `Do not stop what serves the API today: ${outcome.title}. vipnat starts next to it and takes over without an interruption.`,
      commands: [`# step by step: docs/migrate.md#${place}`],
    },
  ];
}

function describeAhead({ flags }: HostFacts): NextStep {
  return {
    title: 'Preview what vipnat would write here. Nothing is written.',
    commands: [`vipnat plan ${flags}`],
  };
}

function holdAddress(facts: HostFacts): NextStep[] {
  if (isHeldByKeepalived(facts)) return [];
  const addresses = [...new Set(facts.config.vips.map(({ address }) => address))].join(', ');
  return [{ title: `Have keepalived hold ${addresses}.`, commands: describeStart(facts) }];
}

function createCluster(facts: HostFacts): NextStep[] {
  const [vip] = facts.config.vips;
  if (vip === undefined || hasCluster(facts)) return [];
  return [
    {
      title: 'Create the cluster, or join it. The virtual IP is its endpoint.',
      commands: [
        `# on the first control-plane node: kubeadm init --control-plane-endpoint ${formatEndpoint(vip)} --upload-certs`,
        '# better with a file that also gives apiservers a shutdown delay: docs/quickstart.md, "Create the cluster"',
        '# on the other nodes: the join command that kubeadm prints, and then keepalived',
      ],
    },
  ];
}

/** An agent with few rights cannot do it. */
function openForwarding({ assessment }: HostFacts): NextStep[] {
  const missing = findValue(assessment)?.missingSwitches ?? [];
  if (missing.length === 0) return [];
  return [
    {
      title: 'Switch IP forwarding on. A privileged agent does it, a static pod does not.',
      commands: [
        ...missing.map(({ command }) => command),
        '# to keep it after a reboot: write a file in /etc/sysctl.d',
      ],
    },
  ];
}

function installAgent(facts: HostFacts): NextStep[] {
  const { flags, units } = facts;
  const start = [
    `vipnat manifest daemonset ${flags} > vipnat.yaml`,
    '# then: kubectl apply -f vipnat.yaml. As a static pod or a service: docs/install.md',
  ];
  return [
    describeAhead(facts),
    {
      title: 'Start the agent on each control-plane node.',
      commands: units.has('vipnat') ? ['systemctl enable --now vipnat'] : start,
    },
    { title: 'Check that the VIP is balanced.', commands: [`vipnat status ${flags}`] },
  ];
}

/** How far this host is: whether an agent has ever run on it; unknown where too little can be read. */
type Stage = 'before-installation' | 'installed' | 'unknown';

/** By what an agent leaves behind: itself, its rules, what it remembers; or by its static pod, which the kubelet starts. */
function findStage(facts: HostFacts): Stage {
  const { agent, assessment, hasMemory, rights } = facts;
  const hasTraces = hasFile(facts, filePaths.agentManifest) || findValue(hasMemory) === true;
  if (agent !== null || hasTraces) return 'installed';
  // An ordinary user's PATH often lacks the folder of these tools.
  const mayRead = findValue(rights)?.hasNetAdmin !== false;
  if ('unknown' in assessment)
    return mayRead && lacksFirewallTool(facts.tools) ? 'before-installation' : 'unknown';
  return hasOwnRules(assessment.value.observation) ? 'installed' : 'before-installation';
}

/** Whether an apiserver of this host is seen, by its process or by its static pod. */
function hasApiserver(facts: HostFacts): boolean {
  const running = findValue(facts.processes) ?? [];
  return running.some((process) => process.isSurelyHere && isApiserver(process)) || hasFile(facts, manifest);
}

/** Whether this host belongs to a cluster and surely runs no apiserver. */
function isWorker(facts: HostFacts): boolean {
  const unseen = [facts.processes, findFile(facts, manifest)];
  return unseen.every((fact) => 'value' in fact) && hasCluster(facts) && !hasApiserver(facts);
}

/** Whether this host belongs to a cluster. A kubelet that waits for `kubeadm init` runs on others too. */
function hasCluster(facts: HostFacts): boolean {
  const { assessment, processes } = facts;
  const isProxied = 'value' in assessment && assessment.value.observation.proxyMode.value !== 'none';
  const running = findValue(processes) ?? [];
  const isAgent = ({ name, isSurelyHere }: HostProcess) => isSurelyHere && name === 'k3s-agent';
  const hasKubeconfig = [filePaths.kubelet, filePaths.admin].some((path) => hasFile(facts, path));
  return isProxied || hasKubeconfig || hasApiserver(facts) || running.some(isAgent);
}

/** Whether keepalived runs here and its configuration has an instance with every virtual IP. */
function isHeldByKeepalived({ config, keepalived, processes }: HostFacts): boolean {
  const text = findValue(keepalived)?.text ?? '';
  const isHere = isKeepalivedHere(findValue(processes) ?? []);
  return isHere && config.vips.every(({ address }) => findInstance(text, address) !== null);
}

/** Whether something of this host asks for the API at one of the virtual IPs already. */
function isInUse(facts: HostFacts): boolean {
  return listServers(facts).some((server) => includesEndpoint(facts.config.vips, server));
}

const manifest = filePaths.apiserverManifest;

function hasFile(facts: HostFacts, path: string): boolean {
  return findValue(findFile(facts, path)) !== null;
}

/**
 * What checks mean on a host on which no agent has run yet.
 *
 * Goal: what is only not there yet alarms nobody, and what serves the API today is not called wrong.
 * Tension: the same finding can be a real fault there, as a VIP that kubeconfigs name and nobody holds.
 * Compromise: each code has the condition under which it is only a step that is still to come; all else stays as it is.
 */

type Condition = (facts: HostFacts) => boolean;

/** Tells what is not there yet as pending, and what serves the API today as a warning at most. Pure. */
function foresee(outcome: Outcome, facts: HostFacts): Outcome {
  const { code } = outcome;
  if (outcome.level === 'ok') return outcome;
  if (outcome.level === 'skipped')
    return isMet(notToBeSeen, code, facts) ? { ...outcome, pending: true } : outcome;
  if (isMet(notThere, code, facts)) return { code, level: 'skipped', reason: outcome.title, pending: true };
  return isMet(harmless, code, facts) ? { ...outcome, level: 'warn' } : outcome;
}

function isMet(codeToCondition: ReadonlyMap<string, Condition>, code: string, facts: HostFacts): boolean {
  return codeToCondition.get(code)?.(facts) ?? false;
}

const always = () => true;

/** Findings that a step of the installation takes away. */
const notThere = new Map<string, Condition>([
  ['forwarding-off', always],
  ['forward-dropped', always],
  ['vip-nowhere', (facts) => !isHeldByKeepalived(facts) && !isInUse(facts)],
  ['keepalived-not-running', ({ keepalived }) => findValue(keepalived)?.text === null],
  ['keepalived-untracked', always],
  ['no-apiserver-known', (facts) => !hasApiserver(facts)],
  ['agent-not-running', always],
]);

/** Failures only while an agent runs: without one they are how the API is served, or affect no client yet. */
const harmless = new Map<string, Condition>([
  ['no-apiserver-known', always],
  ['certificate-lacks-vip', (facts) => !isInUse(facts)],
  ['foreign-dnat', always],
  ['foreign-listener', always],
]);

const lacksApiserver: Condition = (facts) =>
  findValue(facts.assessment)?.health.size === 0 && !hasApiserver(facts);
const lacksKeepalived: Condition = ({ processes }) =>
  'value' in processes && !isKeepalivedHere(processes.value);
const lacksTrackFile: Condition = ({ processes, trackFile }) => 'value' in processes && 'value' in trackFile;

/** Checks that have nothing to look at before that. */
const notToBeSeen = new Map<string, Condition>([
  ['keepalived-lacks-vip', lacksKeepalived],
  ['keepalived-untracked', lacksKeepalived],
  ['track-file-dropped', lacksTrackFile],
  ['track-file-stale', lacksTrackFile],
  ['apiserver-down', lacksApiserver],
  ['liveness-only', lacksApiserver],
  ['certificate-lacks-vip', lacksApiserver],
  ['certificate-expires', lacksApiserver],
  ['clock-off', lacksApiserver],
  ['no-shutdown-delay', (facts) => 'value' in facts.processes && isAbsent(facts, manifest)],
  ['kubeconfig-at-vip', hasNoKubeconfig],
  ['kubeconfig-past-vip', hasNoKubeconfig],
  ['rules-differ', ({ assessment }) => 'value' in assessment],
]);

function hasNoKubeconfig(facts: HostFacts): boolean {
  const { controllerManager, scheduler, kubelet, admin, superAdmin } = filePaths;
  return [controllerManager, scheduler, kubelet, admin, superAdmin].every((path) => isAbsent(facts, path));
}
