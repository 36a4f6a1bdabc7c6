import { forwardingSwitch } from '../../../lib/kernel/host/forwarding.ts';
import { families } from '../../../lib/address/address.ts';
import { type PodKind } from '../../../lib/telemetry/pod-kind.ts';
import { type Endpoint } from '../../../lib/address/endpoint.ts';
import { toArguments } from '../../../config/arguments.ts';
import { type OptionName } from '../../../config/options.ts';
import { toProbes, askOnHost, type Readiness } from './probes.ts';
import { isPrivileged, type ManifestRequest } from './request.ts';
import { findVolumes, toPodVolumes, toVolumeMounts, type HostVolume } from './volumes.ts';
import { podParameter } from '../../../lib/telemetry/pod-kind.ts';
import { asRoot, escapeVariables, nodeName, toConfined, toVipnatContainer } from './container.ts';
import { nestComments, type Part } from './yaml.ts';

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
  const container = toContainer(request, kind, volumes);
  return {
    value: {
      ...onTheHost,
      // It ends at once; what it last wrote stays.
      terminationGracePeriodSeconds: 10,
      containers: [container.value],
      volumes: toPodVolumes(volumes),
    },
    comments: [
      ...nestComments(['containers', 0], container.comments),
      ...volumes.map(({ purpose }, index) => ({ path: ['volumes', index], text: purpose })),
    ],
  };
}

function toContainer(request: ManifestRequest, kind: PodKind, volumes: readonly HostVolume[]): Part {
  const probes = toProbes(toReadiness(request, kind));
  const security = isPrivileged(request) ? privileged : toLeastPrivilege(request.config.vips);
  return {
    value: toVipnatContainer(request, {
      name: 'vipnat',
      kind,
      args: ['run', ...toContainerArguments(request)],
      env: needsNodeName(request) ? [nodeName] : [],
      fields: {
        ...probes.value,
        securityContext: security.value,
        volumeMounts: toVolumeMounts(volumes),
      },
    }),
    comments: [
      { path: ['resources'], text: resourcesComment },
      ...probes.comments,
      ...nestComments(['securityContext'], security.comments),
    ],
  };
}

function toReadiness({ config: { listen } }: ManifestRequest, kind: PodKind): Readiness | null {
  if (listen === null) return null;
  const purpose = 'The probe names its pod, because another agent answers while this pod waits.';
  return { probe: askOnHost(listen, `/readyz?${podParameter}=${kind}`), purpose };
}

/** Sources: docs/benchmarks.md, "A network that loses packets", and `scripts/test nodes`; the tools that it starts come and go beside it. */
const resourcesComment = `Measured: under 2 % of a core and 69 to 82 MiB, or up to 108 MiB with credentials (docs/benchmarks.md).
The pod has no limits: they would slow the agent down when an apiserver dies.`;

/** Events are about the Node. Without credentials there are none. */
function needsNodeName({ options, config }: ManifestRequest): boolean {
  return config.nodeName === null && (options.kind === 'daemonset' || config.kubeconfig !== null);
}

const privileged: Part = { value: { privileged: true, ...asRoot }, comments: [] };

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
