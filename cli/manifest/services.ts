import { type ManifestRequest, readBalancerListen } from './request.ts';
import {
  toLabels,
  toManifest,
  explain,
  onLinux,
  controlPlane,
  toProbes,
  toVipnatContainer,
  escapeVariables,
  toBounded,
  toDaemonSet,
  toFolderVolume,
  onTheHost,
  everyTaint,
  toPodVolumes,
  lock,
  type HostVolume,
  askOnHost,
  nodeName,
  pidVolume,
  toFieldVariable,
  toConfined,
  toVolumeMounts,
  toKeepalivedContainer,
} from './pod.ts';
import { definitions } from '../../lib/api/crds.ts';
import {
  toServicesRights,
  toPolicies,
  toInjection,
  toWebhook,
  controllerName as name,
  balancerName,
} from './rights.ts';
import { formatFlags, servicesNamespace } from '../command.ts';
import { firstPools, firstPoolsRanges } from '../../lib/api/vipnat.ts';
import { type OptionName, type Config, usualRunFolder } from '../../config/options.ts';
import { webhookPort } from '../../lib/api/endpoints.ts';
import { toArguments } from '../../config/load.ts';
import { serviceAccountFolder } from '../../lib/kubernetes/route.ts';
import { formatEndpoint } from '../../lib/net.ts';

/** Everything that gives addresses to Services: objects, controller and balancers with their rights, and a pool where one is asked for. */
export function toServicesManifests(request: ManifestRequest): object[] {
  const { namespace, pool, gate, injectGates } = request.options;
  return [
    ...toNamespaces(namespace),
    ...definitions,
    ...toServicesRights(namespace),
    ...toPolicies(namespace, gate),
    ...(injectGates === 'policy' ? toInjection() : []),
    ...(injectGates === 'webhook' ? toWebhook(namespace) : []),
    ...(pool.length === 0 ? [] : [toFirstPools(namespace, pool)]),
    toControllerDeployment(request),
    toBalancerDaemonSet(request),
  ];
}

/**
 * Clusters that hold every namespace to a standard (PodSecurity) refuse pods of the host's network without this. A namespace of another
 * name is the user's: `kubectl delete` of the printed objects leaves it.
 */
function toNamespaces(name: string): object[] {
  if (name !== servicesNamespace) return [];
  const labels = explain("The balancer's pods need the network of their nodes.", {
    'pod-security.kubernetes.io/enforce': 'privileged',
  });
  return [{ apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } }];
}

/** kubectl refuses an AddressPool in one file with its own definition. */
function toFirstPools(namespace: string, ranges: readonly string[]): object {
  const data = explain('The controller creates an AddressPool of this name, and never changes it.', {
    default: ranges.join('\n'),
  });
  return { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: firstPools, namespace }, data };
}

const labels = toLabels(name);

const controllerOptionNames = new Set<OptionName>(['vip', 'listen', 'logLevel', 'logFormat']);

function toControllerDeployment(request: ManifestRequest): object {
  const spec = {
    replicas: explain('One leads, and the other takes over.', 2),
    selector: { matchLabels: labels },
    template: { metadata: toPodMetadata(request), spec: toControllerPodSpec(request) },
  };
  const { namespace } = request.options;
  return toManifest({ apiVersion: 'apps/v1', kind: 'Deployment', name, namespace }, { spec });
}

/** Other pools make other pods: a controller reads at its start what it is to create. */
function toPodMetadata({ options: { pool } }: ManifestRequest): object {
  const annotations = { [firstPoolsRanges]: pool.join(',') };
  return pool.length === 0 ? { labels } : { labels, annotations };
}

const affinityText =
  "Not both on one node, where there are two. Root on the node has the controller's rights, so nodes without pods of tenants are better.";

/** Where a controller that is given `--driver` finds modules: those of a ConfigMap, if there is one. */
const driversVolume = { name: 'drivers', configMap: { name: 'vipnat-drivers', optional: true } };

const driversMount = { name: 'drivers', mountPath: '/etc/vipnat/drivers', readOnly: true };

function toControllerPodSpec(request: ManifestRequest): object {
  const term = { labelSelector: { matchLabels: labels }, topologyKey: 'kubernetes.io/hostname' };
  return {
    serviceAccountName: name,
    enableServiceLinks: false,
    ...onLinux,
    priorityClassName: 'system-cluster-critical',
    tolerations: [{ ...controlPlane, effect: 'NoSchedule' }],
    affinity: explain(affinityText, {
      nodeAffinity: {
        preferredDuringSchedulingIgnoredDuringExecution: [
          { weight: 50, preference: { matchExpressions: [controlPlane] } },
        ],
      },
      podAntiAffinity: {
        preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 100, podAffinityTerm: term }],
      },
    }),
    securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
    containers: [toContainer(request)],
    ...(request.options.driver.length === 0 ? {} : { volumes: [driversVolume] }),
  };
}

/** Whether it is alive is said by its heartbeat: every pod of the cluster can reach its port, and could fill it. */
const portIsOpen = 'each pod can connect to it';

/** The pod has a network of its own, where the kubelet and Prometheus have to reach it: by IPv4, IPv6 or both. */
const everywhere: NonNullable<Config['listen']> = { family: 'ipv6', address: '::', port: 10_268 };

function toContainer(request: ManifestRequest): object {
  const { options, config, given } = request;
  const { defaultClass, defaultDevice, gate, driver, injectGates, namespace } = options;
  const listen = given.has('listen') ? config.listen : everywhere;
  const names = [...given].filter((option) => controllerOptionNames.has(option));
  const args = [
    'controller',
    ...formatFlags({
      ...{ defaultClass, defaultDevice, gate, driver },
      webhookPort: injectGates === 'webhook' && webhookPort,
      namespace,
    }),
    ...toArguments({ ...config, listen }, new Set([...names, 'listen'])),
  ];
  const httpGet = { path: '/readyz', port: listen?.port };
  const readiness =
    listen &&
    explain('A controller that waits for its turn is ready.', {
      ...{ httpGet, periodSeconds: 5, timeoutSeconds: 5 },
    });
  return toVipnatContainer(request, {
    name: 'controller',
    kind: 'deployment',
    args: args.map(escapeVariables),
    fields: {
      ...{ ...toProbes(readiness, portIsOpen), securityContext: toBounded([]) },
      ...(driver.length === 0 ? {} : { volumeMounts: [driversMount] }),
    },
  });
}

/**
 * The balancer of each node, together with a keepalived of its own.
 *
 * Goal: what is replaced or killed comes back to where it was: tables, seats, and addresses that are on an interface.
 * Tension: a container, a pod or both can go at any moment, and keepalived takes off only the addresses that its own file names.
 * Compromise: their folder is the node's, in memory: it lasts as long as addresses on interfaces do, which is until the node boots.
 */

/** The addresses of the pod's host. Source: core/v1, PodStatus.hostIPs; Kubernetes has it since 1.30. */
const addressVariable = 'HOST_ADDRESSES';

/** The options that the balancer takes, in addition to its folder. */
const balancerOptionNames = new Set<OptionName>(['logLevel', 'logFormat']);

/**
 * A pod on every node, also where none holds addresses: programs and pods of each node use Services, too. The controller gives no
 * seat to a node that is excluded from load balancers.
 */
function toBalancerDaemonSet(request: ManifestRequest): object {
  const head = { name: balancerName, namespace: request.options.namespace };
  const comment = "A node's tables count for 30 more seconds without a balancer.";
  return toDaemonSet(head, toBalancerPodSpec(request), comment);
}

function toBalancerPodSpec(request: ManifestRequest): object {
  const runPurpose = "keepalived's configuration, also after the pod is replaced. A boot empties /run.";
  const { config, given } = request;
  const folder = given.has('runDir') ? config.runDir.replace(/\/$/, '') : usualRunFolder;
  const run = toFolderVolume('run', folder, runPurpose);
  const sharing = 'The balancer tells keepalived to read its configuration again.';
  return {
    serviceAccountName: balancerName,
    // keepalived reads what each host of the segment sends: it gets no token.
    automountServiceAccountToken: false,
    ...onTheHost,
    ...onLinux,
    shareProcessNamespace: explain(sharing, true),
    // Seats are handed over immediately.
    terminationGracePeriodSeconds: 10,
    tolerations: explain('Each node balances for its own programs and pods.', everyTaint),
    containers: [toBalancer(request, run), toKeepalived(request, run)],
    volumes: [...toPodVolumes([lock, run]), pidVolume, explain(tokenPurpose, tokenVolume)],
  };
}

const tokenPurpose =
  "The balancer's credentials, as Kubernetes mounts them. keepalived's container has none.";

/** Source: the ServiceAccount admission plugin of kube-apiserver, which adds the same to pods that say nothing. */
const tokenVolume = {
  name: 'token',
  projected: {
    sources: [
      { serviceAccountToken: { path: 'token', expirationSeconds: 3607 } },
      { configMap: { name: 'kube-root-ca.crt', items: [{ key: 'ca.crt', path: 'ca.crt' }] } },
    ],
  },
};

const tokenMount = { name: 'token', mountPath: serviceAccountFolder, readOnly: true };

function toBalancer(request: ManifestRequest, run: HostVolume): object {
  const { options, config, given } = request;
  const names = new Set([...given].filter((option) => balancerOptionNames.has(option)));
  const listen = readBalancerListen(options);
  const { namespace, nodeProbePort } = options;
  const args = [
    'balancer',
    ...formatFlags({ namespace, runDir: run.path }),
    ...toArguments(config, names),
    ...formatFlags({ listen: listen && formatEndpoint(listen), nodeProbePort }),
  ];
  // Whether it is alive is said by its heartbeat: an API that is away, or a port that another program has, restarts nothing.
  const readiness = listen && explain(readyPurpose, askOnHost(listen, '/readyz'));
  return toVipnatContainer(request, {
    name: 'balancer',
    kind: 'daemonset',
    // Of both families, with a comma between.
    args: [...args.map(escapeVariables), `--node-address=$(${addressVariable})`],
    env: [nodeName, toFieldVariable(addressVariable, 'status.hostIPs')],
    fields: {
      ...toProbes(readiness),
      securityContext: toConfined(['NET_ADMIN', 'NET_RAW']),
      volumeMounts: [...toVolumeMounts([lock, run]), tokenMount],
    },
  });
}

/** Its tables count also while the API is away. */
const readyPurpose =
  'An update continues when the new balancer has written its tables. It stays ready while the API is away.';

/**
 * A keepalived that ended in order has removed its pid files, and its addresses. Then its file may be from long ago: the balancer
 * writes it again. One that was killed has left both, and the next one takes off the addresses that the file names. A pid in
 * these files may be any process by now, and keepalived would not start while it runs.
 */
const script = [
  'cd "$1"',
  'if [ ! -e keepalived.pid ] && [ ! -e vrrp.pid ]; then rm -f keepalived.conf; fi',
  'rm -f keepalived.pid vrrp.pid',
  'until [ -e keepalived.conf ]; do sleep 1; done',
  'exec keepalived --vrrp --dont-fork --log-console --use-file "$1/keepalived.conf" --pid "$1/keepalived.pid" --vrrp_pid "$1/vrrp.pid"',
  '',
].join('\n');

function toKeepalived(request: ManifestRequest, run: HostVolume): object {
  return toKeepalivedContainer(request, {
    command: ['sh', '-c', script, 'sh', escapeVariables(run.path)],
    volumeMounts: [{ name: 'pids', mountPath: '/run' }, ...toVolumeMounts([run])],
  });
}
