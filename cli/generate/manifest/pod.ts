import { forwardingSwitch } from '../../../lib/kernel/host/forwarding.ts';
import { families } from '../../../lib/address/address.ts';
import { type PodKind } from '../../../lib/telemetry/pod-kind.ts';
import { type Endpoint } from '../../../lib/address/endpoint.ts';
import { toArguments } from '../../../config/arguments.ts';
import { podVariable } from '../../../config/environment.ts';
import { nameVariable, type OptionName } from '../../../config/options.ts';
import { toProbes } from './probes.ts';
import { chooseImage, isPrivileged, type ManifestRequest } from './request.ts';
import { findVolumes, toPodVolumes, toVolumeMounts } from './volumes.ts';
import { type Comment } from './yaml.ts';

/** A part of an object, with comments for it, their paths from that part on. */
export interface Part {
  readonly value: object;
  readonly comments: readonly Comment[];
}

/** What all pods have in common: a part of the node, in its network. */
export const onTheHost = {
  hostNetwork: true,
  // Names in a kubeconfig are the host's to look up: the cluster's DNS needs the API that is to be reached.
  dnsPolicy: 'Default',
  enableServiceLinks: false,
  priorityClassName: 'system-node-critical',
};

/** Nodes of another system cannot run the image. */
export const onLinux = { nodeSelector: { 'kubernetes.io/os': 'linux' } };

/** As kubeadm's kube-proxy has it: whatever a node is kept free of, its traffic has to be balanced. */
export const everyTaint = [{ operator: 'Exists' }];

/** The spec of a pod that runs the agent on the host's network, without what says where and as whom it runs. */
export function toPodSpec(request: ManifestRequest, kind: PodKind): Part {
  const volumes = findVolumes(request.config, isPrivileged(request));
  const container = toContainer(request, kind);
  return {
    value: {
      ...onTheHost,
      // It ends at once; what it last wrote stays.
      terminationGracePeriodSeconds: 10,
      containers: [container.value],
      volumes: toPodVolumes(volumes),
    },
    comments: [
      ...container.comments.map(({ path, text }) => ({ path: ['containers', 0, ...path], text })),
      ...volumes.map(({ purpose }, index) => ({ path: ['volumes', index], text: purpose })),
    ],
  };
}

function toContainer(request: ManifestRequest, kind: PodKind): Part {
  const volumes = findVolumes(request.config, isPrivileged(request));
  const probes = toProbes(request.config, kind);
  const security = isPrivileged(request) ? privileged : toLeastPrivilege(request.config.vips);
  return {
    value: {
      name: 'vipnat',
      image: chooseImage(request),
      // Also for a tag `latest`: an image that was loaded by hand is nowhere to be pulled from.
      imagePullPolicy: 'IfNotPresent',
      args: ['run', ...toContainerArguments(request)],
      env: [{ name: podVariable, value: kind }, ...(needsNodeName(request) ? [nodeName] : [])],
      resources: { requests: { cpu: '20m', memory: '128Mi' } },
      ...probes.value,
      securityContext: security.value,
      // What a wrong configuration is told then stands in `kubectl describe pod`.
      terminationMessagePolicy: 'FallbackToLogsOnError',
      volumeMounts: toVolumeMounts(volumes),
    },
    comments: [
      { path: ['resources'], text: resourcesComment },
      ...probes.comments,
      ...security.comments.map(({ path, text }) => ({ path: ['securityContext', ...path], text })),
    ],
  };
}

/** Sources: docs/benchmarks.md, "A network that loses packets", and `scripts/test nodes`; the tools that it starts come and go beside it. */
const resourcesComment = `Measured: under 2 % of a core and 69 to 82 MiB, or up to 108 MiB with credentials (docs/benchmarks.md).
The pod has no limits: they would slow the agent down when an apiserver dies.`;

/** Events are about the Node, whose name only Kubernetes knows. */
const nodeName = {
  name: nameVariable('nodeName'),
  valueFrom: { fieldRef: { fieldPath: 'spec.nodeName' } },
};

/** Without credentials there are no events. */
function needsNodeName({ options, config }: ManifestRequest): boolean {
  return config.nodeName === null && (options.kind === 'daemonset' || config.kubeconfig !== null);
}

/** The image may name another user, and capabilities are root's. */
const root = { runAsUser: 0 };

const privileged: Part = { value: { privileged: true, ...root }, comments: [] };

/**
 * SELinux's type of containers may write nothing of the host's, so a pod without this would lack its folders and the lock wherever
 * SELinux is enforced. It is the type that privileged containers get anyway; the level keeps what they write readable
 * for the host. A runtime without SELinux ignores both.
 */
const seLinuxOptions = { type: 'spc_t', level: 's0' };

/** As root, but with these capabilities only, on a root file system that it cannot write. */
export function toConfined(capabilities: readonly string[]): object {
  return {
    ...root,
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ['ALL'], ...(capabilities.length === 0 ? {} : { add: capabilities }) },
    seccompProfile: { type: 'RuntimeDefault' },
    seLinuxOptions,
  };
}

/** The kernel forgets that route as soon as IPv6 is forwarded, unless told so before. */
const advertisedNote =
  '\nIf an interface obeys router advertisements, first run: sysctl -w net.ipv6.conf.INTERFACE.accept_ra=2';

function toLeastPrivilege(vips: readonly Endpoint[]): Part {
  const switches = families
    .filter((family) => vips.some((vip) => vip.family === family))
    .map((family) => `${forwardingSwitch(family)}=1`);
  return {
    value: toConfined(['NET_ADMIN', 'NET_BIND_SERVICE', 'NET_RAW']),
    comments: [
      {
        path: [],
        text: `/proc/sys is read-only in this container. If IP forwarding is off, the agent cannot switch it on or balance VIPs.
On each node, run: sysctl -w ${switches.join(' ')}${vips.some(({ family }) => family === 'ipv6') ? advertisedNote : ''}`,
      },
    ],
  };
}

/** Where /proc/sys is read-only, trying to set what is in it would only fail. */
function toContainerArguments(request: ManifestRequest): string[] {
  const { config, given } = request;
  const isChecking = !isPrivileged(request) && !given.has('sysctls');
  const args = isChecking
    ? toArguments({ ...config, sysctls: 'check' }, new Set<OptionName>([...given, 'sysctls']))
    : toArguments(config, given);
  return args.map(escapeVariables);
}

/** Kubernetes puts variables in place of `$(NAME)` in arguments, and takes `$$` for `$`. */
export function escapeVariables(text: string): string {
  return text.replaceAll('$', () => '$$');
}
