import { type Config } from '../../../config/config.ts';
import { toArguments } from '../../../config/arguments.ts';
import { podVariable } from '../../../config/environment.ts';
import { type OptionName } from '../../../config/options.ts';
import { webhookPort } from '../../../lib/services/injection.ts';
import { firstPoolsRanges } from '../../../lib/services/names.ts';
import { escapeVariables, onLinux } from './pod.ts';
import { toProbes } from './probes.ts';
import { chooseImage, type ManifestRequest } from './request.ts';
import { controllerName as name } from './services-rights.ts';
import { type Comment, type Manifest } from './yaml.ts';

const labels = { 'app.kubernetes.io/name': name };

/** The options that the controller takes. */
const optionNames = new Set<OptionName>(['vip', 'listen', 'logLevel', 'logFormat']);

/** The controller: two replicas, of which one leads. */
export function toControllerDeployment(request: ManifestRequest): Manifest {
  const { namespace } = request.options;
  const template = ['spec', 'template', 'spec'];
  const container = [...template, 'containers', 0];
  const comments: Comment[] = [
    { path: ['spec', 'replicas'], text: 'One leads, and the other takes over.' },
    { path: [...template, 'affinity'], text: affinityText },
    ...(chooseListen(request) === null
      ? []
      : [
          {
            path: [...container, 'readinessProbe'],
            text: 'A controller that waits for its turn is ready.',
          },
        ]),
    { path: [...container, 'startupProbe'], text: livenessText },
  ];
  const object = {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name, namespace, labels },
    spec: {
      replicas: 2,
      selector: { matchLabels: labels },
      template: { metadata: toPodMetadata(request), spec: toPodSpec(request) },
    },
  };
  return { object, comments };
}

/** Other pools make other pods: a controller reads at its start what it is to create. */
function toPodMetadata({ options: { pool } }: ManifestRequest): object {
  const annotations = { [firstPoolsRanges]: pool.join(',') };
  return pool.length === 0 ? { labels } : { labels, annotations };
}

/** Source: kubeadm; it is the label and the taint of control-plane nodes. */
const controlPlane = 'node-role.kubernetes.io/control-plane';

const onControlPlane = { matchExpressions: [{ key: controlPlane, operator: 'Exists' }] };

const affinityText =
  "Not both on one node, where there are two. Root on the node has the controller's rights, so nodes without pods of tenants are better.";

function toPodSpec(request: ManifestRequest): object {
  const term = { labelSelector: { matchLabels: labels }, topologyKey: 'kubernetes.io/hostname' };
  return {
    serviceAccountName: name,
    enableServiceLinks: false,
    ...onLinux,
    priorityClassName: 'system-cluster-critical',
    tolerations: [{ key: controlPlane, operator: 'Exists', effect: 'NoSchedule' }],
    affinity: {
      nodeAffinity: {
        preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 50, preference: onControlPlane }],
      },
      podAntiAffinity: {
        preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 100, podAffinityTerm: term }],
      },
    },
    securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
    containers: [toContainer(request)],
  };
}

const podKind = 'deployment';

const livenessText =
  'The controller writes until when it is alive, in seconds since boot. No port is used, because each pod can connect to it.';

/** Whether it is alive is said by its heartbeat: every pod of the cluster can reach its port, and could fill it. */
const isAlive = toProbes({ listen: null }, podKind);

/** The pod has a network of its own, where the kubelet and Prometheus have to reach it. */
const everywhere: NonNullable<Config['listen']> = { family: 'ipv4', address: '0.0.0.0', port: 10_268 };

function chooseListen({ config, given }: ManifestRequest): Config['listen'] {
  return given.has('listen') ? config.listen : everywhere;
}

function toContainer(request: ManifestRequest): object {
  const { options, config, given } = request;
  const listen = chooseListen(request);
  const names = [...given].filter((option) => optionNames.has(option));
  const args = [
    'controller',
    ...(options.defaultClass ? ['--default-class'] : []),
    ...(options.defaultDevice === null ? [] : [`--default-device=${options.defaultDevice}`]),
    ...options.gate.map((type) => `--gate=${type}`),
    ...(options.injectGates === 'webhook' ? [`--webhook-port=${webhookPort}`] : []),
    `--namespace=${options.namespace}`,
    ...toArguments({ ...config, listen }, new Set([...names, 'listen'])),
  ];
  return {
    name: 'controller',
    image: chooseImage(request),
    imagePullPolicy: 'IfNotPresent',
    args: args.map(escapeVariables),
    env: [{ name: podVariable, value: podKind }],
    resources: { requests: { cpu: '20m', memory: '128Mi' } },
    ...isAlive.value,
    ...(listen === null ? {} : { readinessProbe: toReadiness(listen.port) }),
    securityContext: {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    },
    terminationMessagePolicy: 'FallbackToLogsOnError',
  };
}

function toReadiness(port: number): object {
  return { httpGet: { path: '/readyz', port }, periodSeconds: 5, timeoutSeconds: 5 };
}
