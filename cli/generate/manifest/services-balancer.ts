import { formatEndpoint } from '../../../lib/address/endpoint.ts';
import { readBalancerListen } from './balancer-listen.ts';
import { toArguments } from '../../../config/arguments.ts';
import { type OptionName } from '../../../config/options.ts';
import { serviceAccountFolder } from '../../../lib/kubernetes/access.ts';
import { usualRunFolder } from '../../../lib/keepalived/seat-files.ts';
import {
  escapeVariables,
  toConfined,
  nodeName,
  toFieldVariable,
  toKeepalivedContainer,
  toVipnatContainer,
} from './container.ts';
import { everyTaint, onLinux, onTheHost } from './pod.ts';
import { type ManifestRequest } from './request.ts';
import { toProbes, askOnHost } from './probes.ts';
import { balancerName as name } from './services-rights.ts';
import { type HostVolume, lock, toFolderVolume, toPodVolumes, toVolumeMounts } from './volumes.ts';
import { type Manifest, nestComments, type Part } from './yaml.ts';
import { toDaemonSet } from './objects.ts';

/**
 * The balancer of each node, with a keepalived of its own beside it.
 *
 * Goal: what is replaced or killed comes back to where it was: tables, seats, and addresses that are on an interface.
 * Tension: a container, a pod or both can go at any moment, and keepalived takes off only the addresses that its own file names.
 * Compromise: their folder is the node's, in memory: it lasts as long as addresses on interfaces do, which is until the node boots.
 */

/** The addresses of the pod's host. Source: core/v1, PodStatus.hostIPs; Kubernetes has it since 1.30. */
const addressVariable = 'HOST_ADDRESSES';

/** The options that the balancer takes, beside its folder. */
const optionNames = new Set<OptionName>(['logLevel', 'logFormat']);

/**
 * A pod on every node, also where none holds addresses: programs and pods of each node use Services, too. The controller gives no
 * seat to a node that is excluded from load balancers.
 */
export function toBalancerDaemonSet(request: ManifestRequest): Manifest {
  const text = "A node's tables count for 30 more seconds without a balancer.";
  return toDaemonSet({ name, namespace: request.options.namespace }, toPodSpec(request), [
    { path: ['spec', 'updateStrategy'], text },
  ]);
}

function toPodSpec(request: ManifestRequest): Part {
  const runPurpose = "keepalived's configuration, also after the pod is replaced. A boot empties /run.";
  const run = toFolderVolume('run', chooseFolder(request), runPurpose);
  const balancer = toBalancer(request, run);
  return {
    value: {
      serviceAccountName: name,
      // keepalived reads what each host of the segment sends: it gets no token.
      automountServiceAccountToken: false,
      ...onTheHost,
      ...onLinux,
      shareProcessNamespace: true,
      // Seats are handed over at once.
      terminationGracePeriodSeconds: 10,
      tolerations: everyTaint,
      containers: [balancer.value, toKeepalived(request, run)],
      volumes: [...toPodVolumes([lock, run]), tokenVolume],
    },
    comments: [
      { path: ['tolerations'], text: 'Each node balances for its own programs and pods.' },
      {
        path: ['shareProcessNamespace'],
        text: 'The balancer tells keepalived to read its configuration again.',
      },
      ...nestComments(['containers', 0], balancer.comments),
      ...[lock.purpose, run.purpose, tokenPurpose].map((text, index) => ({ path: ['volumes', index], text })),
    ],
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

function chooseFolder({ config, given }: ManifestRequest): string {
  return given.has('runDir') ? config.runDir.replace(/\/$/, '') : usualRunFolder;
}

function toBalancer(request: ManifestRequest, run: HostVolume): Part {
  const { options, config, given } = request;
  const names = new Set([...given].filter((option) => optionNames.has(option)));
  const args = [
    'balancer',
    `--namespace=${options.namespace}`,
    `--run-dir=${run.path}`,
    ...toArguments(config, names),
  ];
  const listen = readBalancerListen(options);
  if (listen !== null) args.push(`--listen=${formatEndpoint(listen)}`);
  if (options.nodeProbePort !== null) args.push(`--node-probe-port=${options.nodeProbePort}`);
  // Whether it is alive is said by its heartbeat: an API that is away, or a port that another program has, restarts nothing.
  const probes = toProbes(
    listen === null ? null : { probe: askOnHost(listen, '/readyz'), purpose: readyPurpose },
  );
  const value = toVipnatContainer(request, {
    name: 'balancer',
    kind: 'daemonset',
    // Of both families, with a comma between.
    args: [...args.map(escapeVariables), `--node-address=$(${addressVariable})`],
    env: [nodeName, toFieldVariable(addressVariable, 'status.hostIPs')],
    fields: {
      ...probes.value,
      securityContext: toConfined(['NET_ADMIN', 'NET_RAW']),
      volumeMounts: [...toVolumeMounts([lock, run]), tokenMount],
    },
  });
  return { value, comments: probes.comments };
}

/** Its tables count also while the API is away. */
const readyPurpose =
  'An update continues when the new balancer has written its tables. It stays ready while the API is away.';

/**
 * A keepalived that ended in order has removed its pid files, and its addresses. Then its file may be from long ago: the balancer
 * writes it anew. One that was killed has left both, and the next one takes off the addresses that the file names. A pid in
 * these files may be any process by now, and keepalived would not start beside it.
 */
const script = [
  'cd "$1"',
  'if [ ! -e keepalived.pid ] && [ ! -e vrrp.pid ]; then rm -f keepalived.conf; fi',
  'rm -f keepalived.pid vrrp.pid',
  'until [ -e keepalived.conf ]; do sleep 1; done',
  'exec keepalived --vrrp --dont-fork --log-console --use-file "$1/keepalived.conf" --pid "$1/keepalived.pid" --vrrp_pid "$1/vrrp.pid"',
  '',
].join('\n');

/** VRRP's three. Before a reload keepalived 2.2.7 calls setgroups for its check of the file, and reads nothing where it may not. */
const keepalivedCapabilities = ['NET_ADMIN', 'NET_BROADCAST', 'NET_RAW', 'SETGID'];

function toKeepalived(request: ManifestRequest, run: HostVolume): object {
  return toKeepalivedContainer(request, {
    command: ['sh', '-c', script, 'sh', escapeVariables(run.path)],
    securityContext: toConfined(keepalivedCapabilities),
    volumeMounts: toVolumeMounts([run]),
  });
}
