import { formatAge } from '../../../lib/text/age.ts';
import { type Check } from '../facts/check.ts';
import { type Finding, lookAtHost, type NotHere, type Verdict } from '../facts/fact.ts';
import { type HostFacts } from '../facts/host-facts.ts';
import { type ServicesCluster } from '../facts/services-cluster.ts';
import { areServicesUsed } from '../facts/services-facts.ts';
import { install } from '../remedies/remedies.ts';
import { dataplaneChecks } from './service-dataplanes.ts';
import { deviceChecks } from './service-devices.ts';
import { gateChecks } from './service-gates.ts';
import { poolChecks } from './service-pools.ts';
import { seatChecks } from './service-seats.ts';
import { webhookChecks } from './service-webhook.ts';
import { hangingMs, type HostBalancer, isUsed } from '../../../lib/services/host-balancer.ts';
import { aliveSeconds, nameTable } from '../../../lib/services/balancer-table.ts';

/** Whether this host balances Services. On a host, and in a cluster, without them nothing of it is looked at. */
export const serviceChecks: readonly Check[] = [
  {
    code: 'balancer-not-running',
    levels: ['warn', 'fail'],
    meaning:
      'Services have tables or a configuration here, but no balancer runs. If the tables still count, it is a warning.',
    find: ifUsed(findNoBalancer),
  },
  {
    code: 'balancer-tables-off',
    levels: ['fail'],
    meaning: "The balancer runs, but its tables do not count. kube-proxy's rules get the connections.",
    find: ifUsed(findTablesOff),
  },
  {
    code: 'balancer-hangs',
    levels: ['fail'],
    meaning: 'The sync of the balancer has lasted for more than two minutes.',
    find: ifUsed(findHanging),
  },
  {
    code: 'balancer-without-api',
    levels: ['warn'],
    meaning: 'The balancer does not follow the Kubernetes API. Its tables stay as they are.',
    find: ifUsed(findNoApi),
  },
  {
    code: 'node-never-answered',
    levels: ['warn'],
    meaning: 'A node does not answer the connects of the balancer of this node, and never has.',
    find: ifUsed(findUnheard),
  },
  {
    code: 'balancer-lacks-nft',
    levels: ['fail'],
    meaning: 'The balancer does not write its tables, and nft is missing here or older than 1.0.6.',
    find: ifUsed(findOldNft),
  },
  ...dataplaneChecks.map((check) => ({ ...check, find: ifUsed(check.find) })),
  ...seatChecks.map((check) => ({ ...check, find: ifUsed(check.find) })),
  ...[...gateChecks, ...poolChecks, ...webhookChecks].map((check) => ({
    ...check,
    find: ifUsed(check.find),
  })),
  ...deviceChecks.map((check) => ({ ...check, find: ifKnown(check.find) })),
];

const notUsed: NotHere = { notHere: 'Services have no balancer on this host' };

function ifUsed(find: Check['find']): Check['find'] {
  return (facts) => (areServicesUsed(facts.services) ? find(facts) : notUsed);
}

/** Devices need no balancer and no pool: where the API was asked, they are looked at. */
function ifKnown(find: Check['find']): Check['find'] {
  return (facts) =>
    areServicesUsed(facts.services) || 'value' in facts.services.cluster ? find(facts) : notUsed;
}

/** What puts a balancer back, or takes away what is left of it: which of both is wanted, a person has to say. */
const startBalancer = [
  '# see why its pod does not run: kubectl -n vipnat-system describe pod -l app.kubernetes.io/name=vipnat-balancer',
  '# without a pod: docs/balancer.md. If this host serves no Services any more, see what is left: vipnat cleanup --dry-run',
];

function findNoBalancer({ services: { host, cluster } }: HostFacts): Verdict {
  const isExpected = 'value' in cluster && mayHold(cluster.value);
  if (host.unread !== null && !isUsed(host) && !isExpected) return { unknown: host.unread.message };
  return lookAtHost(() => {
    if (host.balancer !== null || !(isUsed(host) || isExpected)) return [];
    const left = listAlive(host);
    return [
      {
        level: left === null ? 'fail' : 'warn',
        title: 'no vipnat balancer runs on this node',
        why: describeTables(host, left),
        remedy: startBalancer,
      },
    ];
  });
}

/** Whether the controller lets this node hold addresses, as far as it has said. */
function mayHold({ node, view: { pools } }: ServicesCluster): boolean {
  return pools.some(({ status }) => (status?.seats ?? []).some(({ nodes }) => nodes.includes(node)));
}

/** For how long the tables still count; null where one does not. */
function listAlive({ tables }: HostBalancer): number | null {
  if (tables.length === 0) return null;
  const all = tables.map((table) => table.aliveSeconds);
  return all.includes(null) ? null : Math.min(...all.map((seconds) => seconds ?? 0));
}

function describeTables({ tables }: HostBalancer, left: number | null): string {
  if (tables.length === 0)
    return "This node has no table of vipnat. kube-proxy's rules, if any, serve Services.";
  const until = `They count for ${aliveSeconds} s after a balancer last renewed them`;
  return left === null
    ? `Its tables (${nameTables(tables)}) no longer count, so kube-proxy's rules, if any, get the connections. ${until}.`
    : `Its tables (${nameTables(tables)}) count for ${Math.ceil(left)} more seconds. Then kube-proxy's rules, if any, get the connections.`;
}

function nameTables(tables: HostBalancer['tables']): string {
  return tables.map(({ family }) => nameTable(family)).join(', ');
}

function findTablesOff({ services: { host } }: HostFacts): Verdict {
  const { balancer, activity, tables } = host;
  if (balancer === null) return { notHere: 'no balancer runs' };
  if (activity === null) return { unknown: `the balancer (pid ${balancer.pid}) does not say how it does` };
  return lookAtHost(() => {
    const off = tables.filter((table) => table.aliveSeconds === null);
    const { mode } = activity;
    if (off.length === 0 && (mode === 'direct' || mode === null)) return [];
    const what =
      off.length === 0
        ? `it reports mode ${mode ?? ''}`
        : `no balancer renewed ${nameTables(off)} for ${aliveSeconds} s`;
    return [
      {
        level: 'fail',
        title: `the balancer's tables do not count on this node: ${what}`,
        why: "kube-proxy's rules, if any, get the connections. The balancer lets its tables run out if it cannot write them for a minute.",
        remedy: readLog,
      },
    ];
  });
}

const readLog = [
  '# the log of the balancer says why: kubectl -n vipnat-system logs -l app.kubernetes.io/name=vipnat-balancer -c balancer --tail 20 --prefix',
];

function findHanging({ services: { host } }: HostFacts): Verdict {
  return withActivity(host, ({ behindMs }) => {
    if (behindMs < hangingMs) return [];
    return [
      {
        level: 'fail',
        title: `the balancer hangs: its sync has lasted for ${formatAge(behindMs)}`,
        why: "Its tables run out. kube-proxy's rules, if any, get the connections then.",
        remedy: [
          ...readLog,
          '# the kubelet restarts a container that hangs. Without a pod, restart it yourself',
        ],
      },
    ];
  });
}

function findNoApi({ services: { host } }: HostFacts): Verdict {
  return withActivity(host, ({ isFollowing }) => {
    if (isFollowing) return [];
    return [
      {
        level: 'warn',
        title: 'the balancer does not follow the Kubernetes API',
        why: 'Its tables stay as they are: pods that are new get no connections, and pods that are gone still do.',
        remedy: readLog,
      },
    ];
  });
}

function findUnheard({ services: { host } }: HostFacts): Verdict {
  return withActivity(host, ({ unheard = [] }) =>
    unheard.map((place) => ({
      level: 'warn',
      title: `node ${place} has never answered a connect of the balancer of this node`,
      why: 'A firewall may drop the connects. If the node dies, its pods stay in use until Kubernetes marks them as not ready.',
      remedy: [
        '# let this TCP port pass from node to node, or let the firewall refuse it by a reset',
        '# for another port of all balancers, add this to your options: vipnat manifest services --node-probe-port PORT',
      ],
    })),
  );
}

function withActivity(
  { balancer, activity }: HostBalancer,
  find: (activity: NonNullable<HostBalancer['activity']>) => readonly Finding[],
): Verdict {
  if (balancer === null) return { notHere: 'no balancer runs' };
  if (activity === null) return { unknown: `the balancer (pid ${balancer.pid}) does not say how it does` };
  return lookAtHost(() => find(activity));
}

/** nft 1.0.2 cannot read its own maps of verdicts. */
const oldestNft = '1.0.6';

/** Whether a version is not before another one, number by number. */
function isAtLeast(version: string, oldest: string): boolean {
  const [given, wanted] = [version, oldest].map((text) => text.split('.').map(Number));
  const at = (wanted ?? []).findIndex((number, place) => number !== (given?.[place] ?? 0));
  return at < 0 || (given?.[at] ?? 0) > (wanted?.[at] ?? 0);
}

/** A balancer that writes has its own nft, as in its image: this host's is of no matter then. */
function findOldNft({ services: { host, nftVersion }, tools }: HostFacts): Verdict {
  if (host.activity?.mode === 'direct') return { notHere: 'the balancer writes its tables' };
  return lookAtHost(() => {
    if (nftVersion !== null && isAtLeast(nftVersion, oldestNft)) return [];
    if (tools.has('nft') && nftVersion === null) return { unknown: 'nft does not say its version' };
    return [
      {
        level: 'fail',
        title: nftVersion === null ? 'nft is not in PATH' : `nft is version ${nftVersion}`,
        why: 'A balancer outside of a pod needs nft 1.0.6 or later. The image of vipnat has its own.',
        remedy: ['# if the balancer runs outside of a pod:', ...install('nftables', { tools })],
      },
    ];
  });
}
