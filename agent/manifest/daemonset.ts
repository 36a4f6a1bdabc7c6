import { toPodSpec } from './pod.ts';
import { type ManifestRequest } from './request.ts';
import { type Manifest } from './yaml.ts';

const name = 'vipnat';
const labels = { 'app.kubernetes.io/name': name };

/** A DaemonSet for the control-plane nodes, and what it may ask of the API: the Service default/kubernetes and its EndpointSlices. */
export function toDaemonSetManifests(request: ManifestRequest): Manifest[] {
  const { namespace } = request.options;
  const serviceAccount = {
    apiVersion: 'v1',
    kind: 'ServiceAccount',
    metadata: { name, namespace, labels },
  };
  return [{ object: serviceAccount, comments: [] }, role, toRoleBinding(namespace), toDaemonSet(request)];
}

/** What agent/discovery/api/resources.ts asks for. It is looked at by a label, so names cannot limit the slices. */
const role: Manifest = {
  object: {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'Role',
    metadata: { name, namespace: 'default', labels },
    rules: [
      { apiGroups: ['discovery.k8s.io'], resources: ['endpointslices'], verbs: ['list', 'watch'] },
      { apiGroups: [''], resources: ['services'], resourceNames: ['kubernetes'], verbs: ['list', 'watch'] },
    ],
  },
  comments: [
    { path: ['rules'], text: 'The apiservers, and the ClusterIP of the Service default/kubernetes.' },
  ],
};

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

function toDaemonSet(request: ManifestRequest): Manifest {
  const pod = toPodSpec(request);
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
          nodeSelector: { [controlPlane]: '' },
          tolerations: ['NoSchedule', 'NoExecute'].map((effect) => ({
            key: controlPlane,
            operator: 'Exists',
            effect,
          })),
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
