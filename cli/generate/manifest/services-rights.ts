import { apiGroup, electionLease, firstPools } from '../../../lib/services/names.ts';
import { type Manifest } from './yaml.ts';

/** The controller's Deployment, its account and its rights. */
export const controllerName = 'vipnat-controller';

/** The balancer's DaemonSet, its account and its rights. */
export const balancerName = 'vipnat-balancer';

interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly resourceNames?: readonly string[];
  readonly verbs: readonly string[];
}

/** Rules, and what they are for. */
interface Purpose {
  readonly rules: readonly Rule[];
  readonly purpose: string;
}

/** Rules of all namespaces, and of vipnat's own. */
interface Rights {
  readonly cluster: Purpose;
  readonly own: Purpose;
}

/** An account with what controller/kinds/ asks for, and nothing else. */
export function toControllerRights(namespace: string): Manifest[] {
  return toManifests(controllerName, namespace, {
    cluster: {
      purpose:
        'To follow Services, pods, nodes, namespaces, ServiceCIDRs and the addresses of apiservers. To give addresses, and to write finalizers, statuses and events. To open readiness gates by EndpointSlices of its own.',
      rules: [
        { apiGroups: [''], resources: ['services'], verbs: ['get', 'list', 'watch', 'patch'] },
        { apiGroups: [''], resources: ['services/status'], verbs: ['patch'] },
        { apiGroups: [''], resources: ['nodes', 'namespaces', 'pods'], verbs: ['list', 'watch'] },
        { apiGroups: [''], resources: ['pods/status'], verbs: ['patch'] },
        {
          apiGroups: ['discovery.k8s.io'],
          resources: ['endpointslices'],
          verbs: ['list', 'watch', 'create', 'patch', 'delete'],
        },
        { apiGroups: ['networking.k8s.io'], resources: ['servicecidrs'], verbs: ['list', 'watch'] },
        { apiGroups: [apiGroup], resources: ['addresspools'], verbs: ['list', 'watch', 'create', 'patch'] },
        {
          apiGroups: [apiGroup],
          resources: ['virtualips'],
          verbs: ['get', 'list', 'watch', 'create', 'patch', 'delete'],
        },
        { apiGroups: [apiGroup], resources: ['addresspools/status', 'virtualips/status'], verbs: ['patch'] },
        { apiGroups: ['events.k8s.io'], resources: ['events'], verbs: ['create', 'patch'] },
      ],
    },
    own: {
      purpose:
        'To learn what the nodes report. To note and delete Leases of nodes that report no more. To choose one controller that writes, and to create the first pools.',
      // What is created has no name to be limited to.
      rules: [
        { ...leases, verbs: ['list', 'watch', 'create', 'patch', 'delete'] },
        { ...leases, resourceNames: [electionLease], verbs: ['get'] },
        {
          apiGroups: [''],
          resources: ['configmaps'],
          resourceNames: [firstPools],
          verbs: ['get', 'patch'],
        },
      ],
    },
  });
}

/** An account with what balancer/follow/ and balancer/report/ ask for, and nothing else. */
export function toBalancerRights(namespace: string): Manifest[] {
  const follow = ['list', 'watch'];
  return toManifests(balancerName, namespace, {
    cluster: {
      purpose:
        'To follow Services, their pods, who has which address, and nodes: their zones, and whether they shut down.',
      rules: [
        { apiGroups: [''], resources: ['services', 'nodes'], verbs: follow },
        { apiGroups: ['discovery.k8s.io'], resources: ['endpointslices'], verbs: follow },
        { apiGroups: [apiGroup], resources: ['addresspools', 'virtualips'], verbs: follow },
      ],
    },
    own: {
      purpose:
        'To report what this node has done, in the Lease of the node, and to learn where other nodes are.',
      rules: [{ ...leases, verbs: ['get', 'list', 'create', 'patch'] }],
    },
  });
}

const rbac = 'rbac.authorization.k8s.io';
const leases = { apiGroups: ['coordination.k8s.io'], resources: ['leases'] };

function toManifests(name: string, namespace: string, rights: Rights): Manifest[] {
  const labels = { 'app.kubernetes.io/name': name };
  const account = { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name, namespace, labels } };
  const toRole = ({ rules, purpose }: Purpose, where: string | null): Manifest[] => {
    const kind = where === null ? 'ClusterRole' : 'Role';
    const metadata = { name, ...(where === null ? {} : { namespace: where }), labels };
    const binding = {
      apiVersion: `${rbac}/v1`,
      kind: `${kind}Binding`,
      metadata,
      roleRef: { apiGroup: rbac, kind, name },
      subjects: [{ kind: 'ServiceAccount', name, namespace }],
    };
    return [
      {
        object: { apiVersion: `${rbac}/v1`, kind, metadata, rules },
        comments: [{ path: ['rules'], text: purpose }],
      },
      { object: binding, comments: [] },
    ];
  };
  return [
    { object: account, comments: [] },
    ...toRole(rights.cluster, null),
    ...toRole(rights.own, namespace),
  ];
}
