import { formatEndpoint } from '../../../lib/address/endpoint.ts';
import { type Outcome, type TopicOutcome } from '../checks/diagnose.ts';
import { describeStart } from '../checks/keepalived.ts';
import { lacksFirewallTool } from '../checks/tools.ts';
import { type HostFacts } from '../facts/host-facts.ts';
import { hasCluster, isHeldByKeepalived, isWorker } from './stage.ts';

/** Something to do next. */
export interface NextStep {
  /** One sentence: what to do. */
  readonly title: string;
  /** Lines for a shell on this host, as of a remedy. */
  readonly commands: readonly string[];
}

/** What to do on a host on which no agent has run yet, in order. Nothing in it stops what serves the API. Pure. */
export function listNextSteps(facts: HostFacts, topics: readonly TopicOutcome[]): NextStep[] {
  const told = topics.flatMap(({ outcomes }) => outcomes);
  const findings = describeFindings(told, facts);
  if (lacksFirewallTool(facts.tools) || !isAddressFit(told, facts)) return findings;
  if (isWorker(facts)) return [...findings, describeWorker(facts)];
  const serving = told.flatMap(describeServing);
  if (serving.length > 0) return [...findings, ...serving, lookAhead(facts)];
  return [
    ...findings,
    ...holdAddress(facts),
    ...openForwarding(facts),
    ...createCluster(facts),
    ...installAgent(facts),
  ];
}

/** Nothing is built on an address that a stranger has, or that no neighbour asks for. */
function isAddressFit(told: readonly Outcome[], facts: HostFacts): boolean {
  const isFound = (code: string) => told.some((one) => one.code === code && one.level === 'warn');
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

function describeFindings(told: readonly Outcome[], facts: HostFacts): NextStep[] {
  const { flags } = facts;
  const isServing = ({ code }: Outcome) => codeToMigration.has(code) && isAddressFit(told, facts);
  const isOpen = (outcome: Outcome) =>
    (outcome.level === 'fail' || outcome.level === 'warn') && !isServing(outcome);
  if (!told.some(isOpen)) return [];
  return [
    { title: 'Fix the findings above, then run vipnat doctor again.', commands: [`vipnat doctor ${flags}`] },
  ];
}

function describeWorker({ flags }: HostFacts): NextStep {
  return {
    title: 'Go to the control-plane nodes. vipnat runs there, and this node runs no apiserver.',
    commands: [`# on each control-plane node: vipnat doctor ${flags}`],
  };
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

function lookAhead({ flags }: HostFacts): NextStep {
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
  const missing = 'unknown' in assessment ? [] : assessment.value.missingSwitches;
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
    lookAhead(facts),
    {
      title: 'Start the agent on each control-plane node.',
      commands: units.has('vipnat') ? ['systemctl enable --now vipnat'] : start,
    },
    { title: 'Check that the VIP is balanced.', commands: [`vipnat status ${flags}`] },
  ];
}
