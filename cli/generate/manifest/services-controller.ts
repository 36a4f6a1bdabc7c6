import { type Config } from '../../../config/config.ts';
import { toArguments } from '../../../config/arguments.ts';
import { type OptionName } from '../../../config/options.ts';
import { webhookPort } from '../../../lib/services/injection.ts';
import { firstPoolsRanges } from '../../../lib/services/names.ts';
import { escapeVariables, toBounded, toVipnatContainer } from './container.ts';
import { toLabels, toManifest } from './objects.ts';
import { onLinux } from './pod.ts';
import { type Readiness, toProbes } from './probes.ts';
import { type ManifestRequest } from './request.ts';
import { controllerName as name } from './services-rights.ts';
import { type Manifest, nestComments, type Part } from './yaml.ts';

const labels = toLabels(name);

/** The options that the controller takes. */
const optionNames = new Set<OptionName>(['vip', 'listen', 'logLevel', 'logFormat']);

/** The controller: two replicas, of which one leads. */
export function toControllerDeployment(request: ManifestRequest): Manifest {
  const container = toContainer(request);
  const spec = {
    replicas: 2,
    selector: { matchLabels: labels },
    template: { metadata: toPodMetadata(request), spec: toPodSpec(container) },
  };
  const { namespace } = request.options;
  return toManifest({ apiVersion: 'apps/v1', kind: 'Deployment', name, namespace }, { spec }, [
    { path: ['spec', 'replicas'], text: 'One leads, and the other takes over.' },
    { path: ['spec', 'template', 'spec', 'affinity'], text: affinityText },
    ...nestComments(['spec', 'template', 'spec', 'containers', 0], container.comments),
  ]);
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

function toPodSpec(container: Part): object {
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
    containers: [container.value],
  };
}

/** Whether it is alive is said by its heartbeat: every pod of the cluster can reach its port, and could fill it. */
const portIsOpen = 'each pod can connect to it';

/** The pod has a network of its own, where the kubelet and Prometheus have to reach it. */
const everywhere: NonNullable<Config['listen']> = { family: 'ipv4', address: '0.0.0.0', port: 10_268 };

function chooseListen({ config, given }: ManifestRequest): Config['listen'] {
  return given.has('listen') ? config.listen : everywhere;
}

function toContainer(request: ManifestRequest): Part {
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
  const probes = toProbes(listen === null ? null : toReadiness(listen.port), portIsOpen);
  const value = toVipnatContainer(request, {
    name: 'controller',
    kind: 'deployment',
    args: args.map(escapeVariables),
    fields: { ...probes.value, securityContext: toBounded([]) },
  });
  return { value, comments: probes.comments };
}

function toReadiness(port: number): Readiness {
  return {
    probe: { httpGet: { path: '/readyz', port }, periodSeconds: 5, timeoutSeconds: 5 },
    purpose: 'A controller that waits for its turn is ready.',
  };
}
