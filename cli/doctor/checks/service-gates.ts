import { formatAge } from '../../../lib/text/age.ts';
import { shorten } from '../../services/judge-service.ts';
import { type Check } from '../facts/check.ts';
import { type Finding, given, lookAtHost } from '../facts/fact.ts';
import { type GateWait } from '../facts/gate-waits.ts';
import { type HostFacts } from '../facts/host-facts.ts';

/** Nodes report within seconds, also if many pods start together. */
const longMs = 60_000;

/** Whether pods wait for their readiness gates. To be asked only where Services are used. */
export const gateChecks: readonly Check[] = [
  {
    code: 'pod-waits-for-gate',
    levels: ['warn'],
    meaning: 'A pod has waited for a readiness gate of vipnat for more than a minute.',
    find: findWaiting,
  },
];

function findWaiting({ services: { cluster, gateWaits } }: HostFacts): ReturnType<Check['find']> {
  return given([cluster, gateWaits], ({ view }, waits) =>
    lookAtHost(() => {
      const long = waits.filter(({ waitedMs }) => waitedMs > longMs);
      return long.length === 0 ? [] : [describe(long, view.controller.isLeading)];
    }),
  );
}

function describe(waits: readonly GateWait[], isLeading: boolean): Finding {
  const names = shorten(waits.map(({ pod, waitedMs }) => `${pod} (${formatAge(waitedMs)})`));
  const nodes = [...new Set(waits.flatMap((wait) => wait.nodes))].sort();
  const many = waits.length === 1 ? '1 pod waits' : `${waits.length} pods wait`;
  return {
    level: 'warn',
    title: `${many} for a readiness gate: ${names}`,
    why: isLeading ? describeNodes(nodes) : 'No controller leads, so no gate opens, and new pods wait too.',
    remedy: isLeading ? remedyOfNodes(nodes) : remedyOfController,
  };
}

function describeNodes(nodes: readonly string[]): string {
  const until = 'A gate opens after 10 minutes at the latest.';
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
  '# only if you remove vipnat: docs/services.md says how kubectl opens the gates',
];
