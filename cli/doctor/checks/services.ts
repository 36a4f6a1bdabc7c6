import {
  type Checks,
  type Check,
  type ServicesFacts,
  type Verdict,
  given,
  areServicesUsed,
  checkHost,
  type GateWait,
  type Finding,
  type ServicesCluster,
} from '../facts.ts';
import { nameReversePathFilter } from '../../../lib/kernel/forwarding.ts';
import { formatAge, shorten } from '../../../lib/text.ts';
import { seatChecks, poolChecks, deviceChecks } from './service-addresses.ts';
import {
  isUsed,
  type BalancerActivity,
  type HostBalancer,
  aliveSeconds,
  nameTables,
  hangingMs,
} from '../../../lib/api/balancer.ts';
import { install } from '../remedies.ts';

const balancerChecks: Checks = {
  'balancer-not-running': {
    levels: ['warn', 'fail'],
    meaning: 'Services have tables here, but no balancer runs. While the tables count, it is a warning.',
    find: ({ services: { host, cluster } }) => {
      const isExpected = 'value' in cluster && mayHold(cluster.value);
      if (host.unread !== null && !isUsed(host) && !isExpected) return { unknown: host.unread.message };
      if (host.balancer !== null || !(isUsed(host) || isExpected)) return null;
      const left = listAlive(host);
      return {
        level: left === null ? 'fail' : 'warn',
        title: 'no vipnat balancer runs on this node',
        why: describeTables(host, left),
        remedy: startBalancer,
      };
    },
  },
  'balancer-tables-off': {
    levels: ['fail'],
    meaning: "The balancer runs, but its tables do not count. kube-proxy's rules get the connections.",
    find: withActivity(({ mode }, host) => {
      const off = host.tables.filter((table) => table.aliveSeconds === null);
      if (off.length === 0 && (mode === 'direct' || mode === null)) return null;
      const what =
        off.length === 0
          ? `it reports mode ${mode ?? ''}`
          : `no balancer renewed ${nameTables(off)} for ${aliveSeconds} s`;
      return {
        title: `the balancer's tables do not count on this node: ${what}`,
        why: "kube-proxy's rules, if any, get the connections. The balancer lets its tables run out if it cannot write them for a minute.",
        remedy: readLog,
      };
    }),
  },
  'balancer-hangs': {
    levels: ['fail'],
    meaning: 'The sync of the balancer has lasted for more than two minutes.',
    find: withActivity(({ behindMs }) => {
      if (behindMs < hangingMs) return null;
      return {
        title: `the balancer hangs: its sync has lasted for ${formatAge(behindMs)}`,
        why: "Its tables run out. kube-proxy's rules, if any, get the connections then.",
        remedy: [
          ...readLog,
          '# the kubelet restarts a container that hangs. Without a pod, restart it yourself',
        ],
      };
    }),
  },
  'balancer-without-api': {
    levels: ['warn'],
    meaning: 'The balancer does not follow the Kubernetes API. Its tables stay as they are.',
    find: withActivity(({ isFollowing }) => {
      if (isFollowing) return null;
      return {
        title: 'the balancer does not follow the Kubernetes API',
        why: 'Its tables stay as they are: pods that are new get no connections, and pods that are gone still do.',
        remedy: readLog,
      };
    }),
  },
  'node-never-answered': {
    levels: ['warn'],
    meaning: "A node does not answer this node's balancer, and is in use all the same.",
    find: withActivity(({ unheard = [] }) =>
      checkHost(unheard, (place) => ({
        title: `node ${place} does not answer the balancer of this node, and is in use`,
        why: 'A firewall may drop the connects. If the node dies, its pods stay in use until Kubernetes marks them as not ready.',
        remedy: [
          '# let this TCP port pass from node to node, or let the firewall refuse it by a reset',
          '# for another port of all balancers, add this to your options: vipnat manifest services --node-probe-port PORT',
        ],
      })),
    ),
  },
  'service-memory-full': {
    levels: ['warn'],
    meaning: 'A memory of clients or connections of a Service is nearly full on this node.',
    find: withActivity(({ fullMemories = [] }) =>
      checkHost(fullMemories, (memory) => ({
        title: `the memory ${memory} is nearly full`,
        why:
          'A full memory takes no new client or connection. With sessionAffinity, such a client may get another pod each time. With policy Local, such ' +
          'a connection ends when the pods of its node are not ready. Very many clients fill a memory, or packets with invented sources.',
        remedy: [
          '# see who is in it: many sources with one port each are a flood',
          `nft list map ${memory.replace('ipv4 ', 'ip vipnat-lb ').replace('ipv6 ', 'ip6 vipnat-lb ')} | head -50`,
        ],
      })),
    ),
  },
  'balancer-lacks-nft': {
    levels: ['fail'],
    meaning: 'The balancer does not write its tables, and nft is missing here or older than 1.0.6.',
    /** A balancer that writes has its own nft, as in its image: this host's is of no matter then. */
    find: ({ services: { host, nftVersion }, tools }) => {
      if (host.activity?.mode === 'direct') return { notHere: 'the balancer writes its tables' };
      // By numbers: 1.0.10 comes after 1.0.6.
      const order = nftVersion?.localeCompare(oldestNft, 'en', { numeric: true }) ?? -1;
      if (order >= 0) return null;
      if (tools.has('nft') && nftVersion === null) return { unknown: 'nft does not say its version' };
      return {
        title: nftVersion === null ? 'nft is not in PATH' : `nft is version ${nftVersion}`,
        why: 'A balancer outside of a pod needs nft 1.0.6 or later. The image of vipnat has its own.',
        remedy: ['# if the balancer runs outside of a pod:', ...install('nftables', { tools })],
      };
    },
  },
  'services-beside-cilium': {
    levels: ['warn'],
    meaning: 'Cilium replaces kube-proxy on this node, and takes connections before nftables.',
    /** Source: Documentation/network/kubernetes/kubeproxy-free of Cilium 1.18: its programs are at the devices, before netfilter. */
    find: ({ assessment, services: { cilium } }) => {
      if (cilium === null) return { notHere: 'nothing of Cilium is here' };
      return given([assessment], ({ observation: { proxyMode } }) => {
        if (proxyMode.value !== 'none') return { notHere: `kube-proxy runs here (${proxyMode.seenIn})` };
        return {
          title: `Cilium replaces kube-proxy here: there are no chains of kube-proxy, and ${cilium} is there`,
          why:
            "Cilium's programs may take a Service's connections before vipnat's table. Then methods, source ranges and affinity are Cilium's. " +
            'If the balancer ends, no rules of kube-proxy take over.',
          remedy: [
            '# see whether Cilium serves the addresses: cilium-dbg service list (in a pod of Cilium, on this node)',
            '# vipnat still decides which node has an address',
          ],
        };
      });
    },
  },
  'services-beside-calico-ebpf': {
    levels: ['warn'],
    meaning: "Calico's eBPF dataplane runs on this node, and takes connections before nftables.",
    /**
     * Source: felix/config/config_params.go and felix/rules/static.go of Calico 3.29: BPFHostConntrackBypass, true by default, keeps
     * packets of pods out of connection tracking. With it, a translation of netfilter to a pod of this node gets no answer.
     */
    find: ({ services: { calicoEbpf } }) => {
      if (calicoEbpf === null) return { notHere: "nothing of Calico's eBPF dataplane is here" };
      return {
        title: `Calico's eBPF dataplane replaces kube-proxy here: ${calicoEbpf} is there`,
        why:
          "Calico's programs may take a Service's connections before vipnat's table. Connections that vipnat sends to a pod of this node may get no " +
          'answer, because Calico keeps packets of pods out of connection tracking (bpfHostConntrackBypass).',
        remedy: [
          '# for all nodes: let the kernel track packets of pods',
          `# kubectl patch felixconfigurations.crd.projectcalico.org default --type merge -p '{"spec":{"bpfHostConntrackBypass":false}}'`,
        ],
      };
    },
  },
  'services-behind-strict-tunnel': {
    levels: ['warn'],
    meaning: 'Services have policy `Local`, and a tunnel of this node drops what other nodes send on.',
    /** The client's packet comes by the tunnel, and the path back to the client is another interface. */
    find: ({ services: { strictTunnels } }) =>
      given([strictTunnels], (devices) =>
        checkHost(devices, (device) => ({
          title: `${device} drops packets whose return path uses another interface (rp_filter is 1)`,
          why:
            'With policy Local, other nodes send the packets of clients on to pods of this node. If these packets come by a tunnel, this node ' +
            'drops them, and the clients get no answer.',
          remedy: [`sysctl -w ${nameReversePathFilter(device)}=2`],
        })),
      ),
  },
};

/** Nodes report within seconds, also if many pods start together. */
const longMs = 60_000;

/** Whether pods wait for their readiness gates. To be asked only where Services are used. */
const gateChecks: Checks = {
  'pod-waits-for-gate': {
    levels: ['warn'],
    meaning: 'A pod has waited for a readiness gate of vipnat for more than a minute.',
    find: ({ services: { cluster, gateWaits } }) =>
      given([cluster, gateWaits], ({ view }, waits) => {
        const long = waits.filter(({ waitedMs }) => waitedMs > longMs);
        return long.length === 0 ? null : describeGates(long, view.controller.isLeading);
      }),
  },
};

function describeGates(waits: readonly GateWait[], isLeading: boolean): Finding {
  const names = shorten(waits.map(({ pod, waitedMs }) => `${pod} (${formatAge(waitedMs)})`));
  const nodes = [...new Set(waits.flatMap((wait) => wait.nodes))].sort();
  const many = waits.length === 1 ? '1 pod waits' : `${waits.length} pods wait`;
  return {
    title: `${many} for a readiness gate: ${names}`,
    why: isLeading ? describeNodes(nodes) : 'No controller leads, so no gate opens, and new pods wait too.',
    remedy: isLeading ? remedyOfNodes(nodes) : remedyOfController,
  };
}

function describeNodes(nodes: readonly string[]): string {
  const until = 'A gate opens after 3 minutes at the latest.';
  if (nodes.length === 0) return `A Service that selects the pod may have no address yet. ${until}`;
  return `These nodes have not reported that they send connections to the pod: ${shorten(nodes)}. ${until}`;
}

/** They only print. */
function remedyOfNodes(nodes: readonly string[]): string[] {
  return [
    '# see what the Services of these pods wait for: vipnat services NAMESPACE/NAME',
    ...(nodes.length === 0
      ? []
      : [
          `# see the balancers of ${shorten(nodes)}: kubectl -n vipnat-system get pods -o wide -l app.kubernetes.io/name=vipnat-balancer`,
        ]),
  ];
}

const remedyOfController = [
  '# see why no controller leads: kubectl -n vipnat-system describe pod -l app.kubernetes.io/name=vipnat-controller',
  '# only if you remove vipnat: docs/services-operate.md says how kubectl opens the gates',
];

/** What the API says of the webhook. To be asked only where Services are used. */
const webhookChecks: Checks = {
  'webhook-not-trusted': {
    levels: ['warn'],
    meaning: "API servers do not trust the webhook's certificate, or it ends within two months.",
    find: ({ services: { webhook } }) =>
      given([webhook], (facts) => {
        if (facts === null) return { notHere: 'the cluster has no webhook of vipnat' };
        const { leftMs } = facts;
        if (leftMs !== null && leftMs > soonMs) return null;
        return {
          title: `the certificate of the webhook ${describeWebhook(leftMs)}`,
          why: 'The controller that leads makes and renews it. Without it, new pods get no readiness gate.',
          remedy: [
            '# see whether a controller leads: vipnat services',
            '# see whether it may write: kubectl -n vipnat-system logs -l app.kubernetes.io/name=vipnat-controller --tail 50 --prefix',
            '# a controller without --webhook-port makes none. Add this to your options, and apply the manifest again: vipnat manifest services --inject-gates=webhook',
          ],
        };
      }),
  },
};

/** Four months after it should have been renewed, and two before it ends. */
const soonMs = 60 * 86_400_000;

function describeWebhook(leftMs: number | null): string {
  if (leftMs === null) return 'is not known to API servers';
  return leftMs < 0 ? `ended ${formatAge(-leftMs)} ago` : `ends in ${formatAge(leftMs)}`;
}

/** Whether this host balances Services. On a host, and in a cluster, without them nothing of it is looked at. */
export const serviceChecks: Checks = {
  ...limit(
    { ...balancerChecks, ...seatChecks, ...gateChecks, ...poolChecks, ...webhookChecks },
    areServicesUsed,
  ),
  // Devices need no balancer and no pool: where the API was asked, they are looked at.
  ...limit(deviceChecks, (services) => areServicesUsed(services) || 'value' in services.cluster),
};

/** Makes each check only where a condition holds. Where tables could not be read, it is not known whether it does. */
function limit(checks: Checks, isMet: (services: ServicesFacts) => boolean): Checks {
  const limited = Object.entries(checks).map(([code, check]): [string, Check] => [
    code,
    {
      ...check,
      find: (facts) => (isMet(facts.services) ? check.find(facts) : describeUnused(facts.services)),
    },
  ]);
  return Object.fromEntries(limited);
}

function describeUnused({ host: { unread } }: ServicesFacts): Verdict {
  return unread === null ? 'not on this host' : { unknown: unread.message };
}

/** What puts a balancer back, or takes away what is left of it: which of both is wanted, a person has to say. */
const startBalancer = [
  '# see why its pod does not run: kubectl -n vipnat-system describe pod -l app.kubernetes.io/name=vipnat-balancer',
  '# without a pod: docs/services-operate.md. If this host serves no Services any more, see what is left: vipnat cleanup --dry-run',
];

/** Whether the controller lets this node hold addresses, as far as it has said. */
function mayHold({ node, view: { pools } }: ServicesCluster): boolean {
  return pools.some(({ status }) => (status?.seats ?? []).some(({ nodes }) => nodes.includes(node)));
}

/** For how long the tables still count; null where one does not. */
function listAlive({ tables }: HostBalancer): number | null {
  if (tables.length === 0) return null;
  const all = tables.flatMap((table) => table.aliveSeconds ?? []);
  return all.length < tables.length ? null : Math.min(...all);
}

function describeTables({ tables }: HostBalancer, left: number | null): string {
  if (tables.length === 0)
    return "This node has no table of vipnat. kube-proxy's rules, if any, serve Services.";
  const until = `They count for ${aliveSeconds} s after a balancer last renewed them`;
  return left === null
    ? `Its tables (${nameTables(tables)}) no longer count, so kube-proxy's rules, if any, get the connections. ${until}.`
    : `Its tables (${nameTables(tables)}) count for ${Math.ceil(left)} more seconds. Then kube-proxy's rules, if any, get the connections.`;
}

const readLog = [
  '# the log of the balancer says why: kubectl -n vipnat-system logs -l app.kubernetes.io/name=vipnat-balancer -c balancer --tail 20 --prefix',
];

function withActivity(find: (activity: BalancerActivity, host: HostBalancer) => Verdict): Check['find'] {
  return ({ services: { host } }) => {
    const { balancer, activity } = host;
    if (balancer === null) return { notHere: 'no balancer runs' };
    if (activity === null) return { unknown: `the balancer (pid ${balancer.pid}) does not say how it does` };
    return find(activity, host);
  };
}

/** nft 1.0.2 cannot read its own maps of verdicts. */
const oldestNft = '1.0.6';
