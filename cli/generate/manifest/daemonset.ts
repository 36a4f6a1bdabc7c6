import { everyTaint as tolerations, toPodSpec } from './pod.ts';
import { type ManifestRequest } from './request.ts';
import { type Manifest } from './yaml.ts';

const name = 'vipnat';
const labels = { 'app.kubernetes.io/name': name };

/** A DaemonSet for the control-plane nodes, and what it may do with the API: follow the Service default/kubernetes and its EndpointSlice, and write events. */
export function toDaemonSetManifests(request: ManifestRequest): Manifest[] {
  const { namespace } = request.options;
  const serviceAccount = {
    apiVersion: 'v1',
    kind: 'ServiceAccount',
    metadata: { name, namespace, labels },
  };
  return [{ object: serviceAccount, comments: [] }, role, toRoleBinding(namespace), toDaemonSet(request)];
}

/**
 * What agent/api/kubernetes-objects.ts and lib/kubernetes/event-request.ts ask for: by its name each time, as a list that is limited to
 * names has to be. What is created has no name to be limited to.
 */
const role: Manifest = {
  object: {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'Role',
    metadata: { name, namespace: 'default', labels },
    rules: [
      allowFollowing('discovery.k8s.io', 'endpointslices'),
      allowFollowing('', 'services'),
      { apiGroups: ['events.k8s.io'], resources: ['events'], verbs: ['create', 'patch'] },
    ],
  },
  comments: [
    {
      path: ['rules'],
      text: 'To read the apiservers and the Service default/kubernetes, and to write events about nodes.',
    },
  ],
};

function allowFollowing(group: string, resource: string): object {
  return {
    apiGroups: [group],
    resources: [resource],
    resourceNames: ['kubernetes'],
    verbs: ['list', 'watch'],
  };
}

function toRoleBinding(namespace: string): Manifest {
  return {
    object: {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'RoleBinding',
      metadata: { name, namespace: 'default', labels },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name },
      subjects: [{ kind: 'ServiceAccount', name, namespace }],
    },
    comments: [],
  };
}

const controlPlane = 'node-role.kubernetes.io/control-plane';

/** By the label alone: its value is empty where kubeadm sets it, and `true` where RKE2 and k3s do. */
const affinity = {
  nodeAffinity: {
    requiredDuringSchedulingIgnoredDuringExecution: {
      nodeSelectorTerms: [{ matchExpressions: [{ key: controlPlane, operator: 'Exists' }] }],
    },
  },
};

function toDaemonSet(request: ManifestRequest): Manifest {
  const pod = toPodSpec(request, 'daemonset');
  const { namespace } = request.options;
  const object = {
    apiVersion: 'apps/v1',
    kind: 'DaemonSet',
    metadata: { name, namespace, labels },
    spec: {
      selector: { matchLabels: labels },
      // A pod that ends within that time stops the roll-out at its node.
      minReadySeconds: 10,
      updateStrategy: { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: 1 } },
      template: {
        metadata: { labels },
        spec: {
          serviceAccountName: name,
          affinity,
          tolerations,
          ...pod.value,
        },
      },
    },
  };
  const comments = pod.comments.map(({ path, text }) => ({
    path: ['spec', 'template', 'spec', ...path],
    text,
  }));
  return { object, comments };
}
