import { type Config } from '../../../config/config.ts';
import { toArguments } from '../../../config/arguments.ts';
import { definitions } from '../../../lib/services/definitions.ts';
import { apiGroup, apiVersion, electionLease } from '../../../lib/services/names.ts';
import { escapeVariables } from './pod.ts';
import { chooseImage, type ManifestRequest } from './request.ts';
import { type Comment, type Manifest } from './yaml.ts';

const name = 'vipnat-controller';
const labels = { 'app.kubernetes.io/name': name };

/** Everything that gives addresses to Services: objects, the controller with its rights, and a pool where one is asked for. */
export function toServicesManifests(request: ManifestRequest): Manifest[] {
  const { namespace, pools } = request.options;
  const plain = (object: object): Manifest => ({ object, comments: [] });
  return [
    plain({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } }),
    ...definitions.map(plain),
    plain({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name, namespace, labels } }),
    clusterRole,
    plain(toBinding('ClusterRole', namespace)),
    toRole(namespace),
    plain(toBinding('Role', namespace)),
    toDeployment(request),
    ...(pools.length === 0 ? [] : [toPool(pools)]),
  ];
}

const rbac = 'rbac.authorization.k8s.io';

/** What controller/reconcile/ asks for. */
const clusterRole: Manifest = {
  object: {
    apiVersion: `${rbac}/v1`,
    kind: 'ClusterRole',
    metadata: { name, labels },
    rules: [
      { apiGroups: [''], resources: ['services'], verbs: ['get', 'list', 'watch', 'patch'] },
      { apiGroups: [''], resources: ['services/status'], verbs: ['patch'] },
      { apiGroups: [''], resources: ['nodes', 'namespaces'], verbs: ['list', 'watch'] },
      { apiGroups: [apiGroup], resources: ['addresspools'], verbs: ['list', 'watch', 'patch'] },
      {
        apiGroups: [apiGroup],
        resources: ['virtualips'],
        verbs: ['get', 'list', 'watch', 'create', 'patch', 'delete'],
      },
      { apiGroups: [apiGroup], resources: ['addresspools/status', 'virtualips/status'], verbs: ['patch'] },
      { apiGroups: ['events.k8s.io'], resources: ['events'], verbs: ['create', 'patch'] },
    ],
  },
  comments: [
    {
      path: ['rules'],
      text: 'To follow Services, nodes and namespaces, to write finalizers and statuses, to give addresses, and to write events.',
    },
  ],
};

/** What is created has no name to be limited to. */
function toRole(namespace: string): Manifest {
  const leases = { apiGroups: ['coordination.k8s.io'], resources: ['leases'] };
  return {
    object: {
      apiVersion: `${rbac}/v1`,
      kind: 'Role',
      metadata: { name, namespace, labels },
      rules: [
        { ...leases, verbs: ['list', 'watch', 'create'] },
        { ...leases, resourceNames: [electionLease], verbs: ['get', 'patch'] },
      ],
    },
    comments: [
      { path: ['rules'], text: 'To learn what the nodes report, and to choose one controller that writes.' },
    ],
  };
}

function toBinding(kind: 'Role' | 'ClusterRole', namespace: string): object {
  return {
    apiVersion: `${rbac}/v1`,
    kind: `${kind}Binding`,
    metadata: { name, ...(kind === 'Role' ? { namespace } : {}), labels },
    roleRef: { apiGroup: rbac, kind, name },
    subjects: [{ kind: 'ServiceAccount', name, namespace }],
  };
}

function toDeployment(request: ManifestRequest): Manifest {
  const { namespace } = request.options;
  const template = ['spec', 'template', 'spec'];
  const comments: Comment[] = [
    { path: ['spec', 'replicas'], text: 'One leads, and the other takes over.' },
    { path: [...template, 'affinity'], text: 'Not both on one node, where there are two.' },
    {
      path: [...template, 'containers', 0, 'readinessProbe'],
      text: 'A controller that waits for its turn is ready.',
    },
  ];
  const object = {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name, namespace, labels },
    spec: {
      replicas: 2,
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: toPodSpec(request) },
    },
  };
  return { object, comments };
}

function toPodSpec(request: ManifestRequest): object {
  const term = { labelSelector: { matchLabels: labels }, topologyKey: 'kubernetes.io/hostname' };
  return {
    serviceAccountName: name,
    enableServiceLinks: false,
    priorityClassName: 'system-cluster-critical',
    affinity: {
      podAntiAffinity: {
        preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 100, podAffinityTerm: term }],
      },
    },
    securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
    containers: [toContainer(request)],
  };
}

/** The pod has a network of its own, where the kubelet and Prometheus have to reach it. */
const everywhere: NonNullable<Config['listen']> = { family: 'ipv4', address: '0.0.0.0', port: 10_268 };

function toContainer(request: ManifestRequest): object {
  const { options, config, given } = request;
  const listen = given.has('listen') ? config.listen : everywhere;
  const args = [
    'controller',
    ...(options.isDefaultClass ? ['--default-class'] : []),
    `--namespace=${options.namespace}`,
    ...toArguments({ ...config, listen }, new Set([...given, 'listen'])),
  ];
  return {
    name: 'controller',
    image: chooseImage(request),
    imagePullPolicy: 'IfNotPresent',
    args: args.map(escapeVariables),
    resources: { requests: { cpu: '20m', memory: '128Mi' } },
    ...(listen === null ? {} : toProbes(listen.port)),
    securityContext: {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    },
    terminationMessagePolicy: 'FallbackToLogsOnError',
  };
}

function toProbes(port: number): object {
  return {
    readinessProbe: { httpGet: { path: '/readyz', port }, periodSeconds: 5, timeoutSeconds: 5 },
    livenessProbe: {
      httpGet: { path: '/healthz', port },
      periodSeconds: 20,
      timeoutSeconds: 10,
      failureThreshold: 6,
    },
  };
}

function toPool(addresses: readonly string[]): Manifest {
  return {
    object: {
      apiVersion: `${apiGroup}/${apiVersion}`,
      kind: 'AddressPool',
      metadata: { name: 'default' },
      spec: { addresses },
    },
    comments: [],
  };
}
