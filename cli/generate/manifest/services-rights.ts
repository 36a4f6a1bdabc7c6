import {
  apiGroup,
  deviceSecret,
  electionLease,
  firstPools,
  webhookName,
} from '../../../lib/services/names.ts';
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
        { apiGroups: [apiGroup], resources: ['loadbalancerdevices'], verbs: ['list', 'watch', 'patch'] },
        {
          apiGroups: [apiGroup],
          resources: ['addresspools/status', 'virtualips/status', 'loadbalancerdevices/status'],
          verbs: ['patch'],
        },
        { apiGroups: ['events.k8s.io'], resources: ['events'], verbs: ['create', 'patch'] },
      ],
    },
    own: {
      purpose:
        'To learn what the nodes report. To note and delete Leases of nodes that report no more. To choose one controller that writes, and to create the first pools. To read the credentials of devices.',
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
        { apiGroups: [''], resources: ['secrets'], resourceNames: [deviceSecret], verbs: ['get'] },
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

/** What the controller's account needs besides to keep the webhook's certificate. */
export function toWebhookRights(namespace: string): Manifest[] {
  const ofWebhook = { resourceNames: [webhookName], verbs: ['list', 'watch', 'patch'] };
  const secrets = { apiGroups: [''], resources: ['secrets'] };
  const rights: Rights = {
    cluster: {
      purpose:
        'To write which certificates the API server trusts. This right also allows to change what the webhook is asked about.',
      rules: [
        {
          apiGroups: ['admissionregistration.k8s.io'],
          resources: ['mutatingwebhookconfigurations'],
          ...ofWebhook,
        },
      ],
    },
    own: {
      purpose:
        'To make and renew the certificate of the webhook. An admission policy lets it create no other Secret.',
      // What is created has no name to be limited to.
      rules: [
        { ...secrets, verbs: ['create'] },
        { ...secrets, ...ofWebhook },
      ],
    },
  };
  return toRoles({ name: webhookName, account: controllerName, namespace }, rights);
}

const rbac = 'rbac.authorization.k8s.io';
const leases = { apiGroups: ['coordination.k8s.io'], resources: ['leases'] };

function toManifests(name: string, namespace: string, rights: Rights): Manifest[] {
  const labels = { 'app.kubernetes.io/name': name };
  const account = { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name, namespace, labels } };
  return [{ object: account, comments: [] }, ...toRoles({ name, account: name, namespace }, rights)];
}

interface RoleNames {
  readonly name: string;
  readonly account: string;
  readonly namespace: string;
}

function toRoles({ name, account, namespace }: RoleNames, rights: Rights): Manifest[] {
  const toRole = ({ rules, purpose }: Purpose, where: string | null): Manifest[] => {
    const kind = where === null ? 'ClusterRole' : 'Role';
    const labels = { 'app.kubernetes.io/name': name };
    const metadata = { name, ...(where === null ? {} : { namespace: where }), labels };
    const binding = {
      apiVersion: `${rbac}/v1`,
      kind: `${kind}Binding`,
      metadata,
      roleRef: { apiGroup: rbac, kind, name },
      subjects: [{ kind: 'ServiceAccount', name: account, namespace }],
    };
    return [
      {
        object: { apiVersion: `${rbac}/v1`, kind, metadata, rules },
        comments: [{ path: ['rules'], text: purpose }],
      },
      { object: binding, comments: [] },
    ];
  };
  return [...toRole(rights.cluster, null), ...toRole(rights.own, namespace)];
}
