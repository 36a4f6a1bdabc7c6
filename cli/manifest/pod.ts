import { type PodKind, podParameter, heartbeatProbe } from '../../lib/telemetry/log.ts';
import type { ManifestRequest } from './request.ts';
import { podVariable, toArguments } from '../../config/load.ts';
import { nameVariable, type OptionName, type Config } from '../../config/options.ts';
import { type Endpoint, families } from '../../lib/net.ts';
import { forwardingSwitch } from '../../lib/kernel/forwarding.ts';
import { Document, visit, isNode, type Node, type Pair } from 'yaml';

interface ObjectHead {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  /** null for an object of the whole cluster. */
  readonly namespace: string | null;
}

/** The label of everything that belongs to what has this name. */
export function toLabels(name: string): object {
  return { 'app.kubernetes.io/name': name };
}

/** An object with its label and its further fields. */
export function toManifest({ apiVersion, kind, name, namespace }: ObjectHead, fields: object): object {
  const metadata = { name, ...(namespace === null ? {} : { namespace }), labels: toLabels(name) };
  return { apiVersion, kind, metadata, ...fields };
}

/** A DaemonSet with this spec of its pods: one node after the other gets a new pod. `comment` is for that. */
export function toDaemonSet(
  { name, namespace }: Pick<ObjectHead, 'name' | 'namespace'>,
  pod: object,
  comment = '',
): object {
  const labels = toLabels(name);
  const spec = {
    selector: { matchLabels: labels },
    // A pod that ends within that time stops the roll-out at its node. A balancer's seats have moved by then.
    minReadySeconds: 10,
    updateStrategy: explain(comment, { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: 1 } }),
    template: { metadata: { labels }, spec: pod },
  };
  return toManifest({ apiVersion: 'apps/v1', kind: 'DaemonSet', name, namespace }, { spec });
}

/** The group of admission policies and webhooks. */
export const admission = 'admissionregistration.k8s.io/v1';

interface AdmissionPolicy {
  readonly kind: 'ValidatingAdmissionPolicy' | 'MutatingAdmissionPolicy';
  readonly name: string;
  readonly purpose: string;
  readonly spec: object;
  /** The fields of the binding in addition to the policy's name. */
  readonly binding: object;
}

/** The policy, and then its binding. */
export function toPolicyManifests({ kind, name, purpose, spec, binding }: AdmissionPolicy): object[] {
  const head = { apiVersion: admission, name, namespace: null };
  return [
    toManifest({ ...head, kind }, { spec: explain(purpose, spec) }),
    toManifest({ ...head, kind: `${kind}Binding` }, { spec: { policyName: name, ...binding } }),
  ];
}

/** A container's further fields, in the order of the manifest, and what it was measured to need. */
interface Container {
  readonly name: string;
  readonly image: string;
  readonly requests: { readonly cpu: string; readonly memory: string };
  /** What to say of that. */
  readonly comment?: string;
  readonly fields: object;
}

/** What all containers have. */
function toContainer({ name, image, requests, comment = '', fields }: Container): object {
  return {
    name,
    image,
    // Also for a tag `latest`: an image that was loaded by hand is nowhere to be pulled from, and the VIP waits for no registry.
    imagePullPolicy: 'IfNotPresent',
    ...fields,
    resources: explain(comment, { requests }),
    // The errors of a wrong configuration are then in `kubectl describe pod`.
    terminationMessagePolicy: 'FallbackToLogsOnError',
  };
}

/**
 * A container that runs vipnat for as long as its pod lives. `args` are as Kubernetes takes them, with `$` escaped. `env` is in addition to the
 * variable that names the kind of the pod.
 */
interface VipnatContainer extends Omit<Container, 'image' | 'requests'> {
  readonly kind: PodKind;
  readonly args: readonly string[];
  readonly env?: readonly object[];
}

/** vipnat's container. */
export function toVipnatContainer(request: ManifestRequest, container: VipnatContainer): object {
  const { kind, args, env: others = [], ...more } = container;
  const env = [{ name: podVariable, value: kind }, ...others];
  const requests = { cpu: '20m', memory: '128Mi' };
  const fields = { args, env, ...more.fields };
  return toContainer({ ...more, image: chooseImage(request), requests, fields });
}

/** A container that runs vipnat once, before the others start. */
export function toInitContainer(request: ManifestRequest, name: string, fields: object): object {
  const requests = { cpu: '10m', memory: '64Mi' };
  return toContainer({ name, image: chooseImage(request), requests, fields });
}

/** VRRP's three. keepalived calls setgroups before each script, and 2.2.7 before it checks its file: it does neither where it may not. */
const keepalivedCapabilities = ['NET_ADMIN', 'NET_BROADCAST', 'NET_RAW', 'SETGID'];

/** keepalived's container. */
export function toKeepalivedContainer(request: ManifestRequest, fields: object): object {
  const requests = { cpu: '10m', memory: '16Mi' };
  const image = request.options.keepalivedImage ?? request.ownImages.keepalived;
  const securityContext = toConfined(keepalivedCapabilities);
  return toContainer({ name: 'keepalived', image, requests, fields: { ...fields, securityContext } });
}

function chooseImage({ options, ownImages }: ManifestRequest): string {
  return options.image ?? ownImages.vipnat;
}

/** The name of the node, which only Kubernetes knows. */
export const nodeName = toFieldVariable(nameVariable('nodeName'), 'spec.nodeName');

/** A variable that has a field of the pod. */
export function toFieldVariable(name: string, fieldPath: string): object {
  return { name, valueFrom: { fieldRef: { fieldPath } } };
}

/** The image may name another user, and capabilities are root's. */
const asRoot = { runAsUser: 0 };

/**
 * SELinux's type of containers may write nothing of the host's, so a pod without this would lack its folders and the lock wherever
 * SELinux is enforced. It is the type that privileged containers get anyway; the level keeps what they write readable
 * for the host. A runtime without SELinux ignores both.
 */
const seLinuxOptions = { type: 'spc_t', level: 's0' };

/** What no container gets that has capabilities: more of them, and a root file system that it can write. */
export function toBounded(capabilities: readonly string[]): object {
  return {
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ['ALL'], ...(capabilities.length === 0 ? {} : { add: capabilities }) },
  };
}

/** As root, but with these capabilities only, on a root file system that it cannot write. */
export function toConfined(added: readonly string[]): object {
  return { ...asRoot, ...toBounded(added), seccompProfile: { type: 'RuntimeDefault' }, seLinuxOptions };
}

/** Kubernetes puts variables in place of `$(NAME)` in arguments, and takes `$$` for `$`. */
export function escapeVariables(text: string): string {
  return text.replaceAll('$', () => '$$');
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

/** Source: kubeadm; it is the label and the taint of control-plane nodes. */
export const controlPlane = { key: 'node-role.kubernetes.io/control-plane', operator: 'Exists' };

/** As kubeadm's kube-proxy has it: whatever a node is kept free of, its traffic has to be balanced. */
export const everyTaint = [{ operator: 'Exists' }];

/** The spec of a pod that runs the agent on the host's network, without what says where and as whom it runs. */
export function toPodSpec(request: ManifestRequest, kind: PodKind): object {
  const { listen, vips } = request.config;
  const volumes = findVolumes(request.config, isPrivileged(request));
  const purpose = 'The probe names its pod, because another agent answers while this pod waits.';
  const readiness = listen && explain(purpose, askOnHost(listen, `/readyz?${podParameter}=${kind}`));
  const container = toVipnatContainer(request, {
    name: 'vipnat',
    kind,
    args: ['run', ...toContainerArguments(request)],
    env: needsNodeName(request) ? [nodeName] : [],
    comment: resourcesComment,
    fields: {
      ...toProbes(readiness),
      securityContext: isPrivileged(request) ? { privileged: true, ...asRoot } : toLeastPrivilege(vips),
      volumeMounts: toVolumeMounts(volumes),
    },
  });
  return {
    ...onTheHost,
    // It ends immediately; what it last wrote stays.
    terminationGracePeriodSeconds: 10,
    containers: [container],
    volumes: toPodVolumes(volumes),
  };
}

/** Sources: docs/benchmarks.md, "A network that loses packets", and `scripts/test nodes`; the tools that it starts come and go in addition. */
const resourcesComment = `Measured: under 2 % of a core and 69 to 82 MiB, or up to 108 MiB with credentials (docs/benchmarks.md).
The pod has no limits: they would slow the agent down when an apiserver dies.`;

function isPrivileged({ options }: ManifestRequest): boolean {
  return options.kind === 'daemonset' && !options.leastPrivilege;
}

/** Events are about the Node. Without credentials there are none. */
function needsNodeName({ options, config }: ManifestRequest): boolean {
  return config.nodeName === null && (options.kind === 'daemonset' || config.kubeconfig !== null);
}

/** The kernel forgets that route as soon as IPv6 is forwarded, unless accept_ra is set to 2 before. */
const advertisedNote =
  '\nIf an interface obeys router advertisements, first run: sysctl -w net.ipv6.conf.INTERFACE.accept_ra=2';

function toLeastPrivilege(vips: readonly Endpoint[]): object {
  const switches = families
    .filter((family) => vips.some((vip) => vip.family === family))
    .map((family) => `${forwardingSwitch(family)}=1`);
  const comment = `/proc/sys is read-only in this container. If IP forwarding is off, the agent cannot switch it on or balance VIPs.
On each node, run: sysctl -w ${switches.join(' ')}${vips.some(({ family }) => family === 'ipv6') ? advertisedNote : ''}`;
  return explain(comment, toConfined(['NET_ADMIN', 'NET_BIND_SERVICE', 'NET_RAW']));
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

/**
 * The probes of vipnat's container: a program in the container answers whether it is alive, and HTTP answers whether it is ready,
 * unless nothing is served. Only a loop that hangs for minutes is a reason to restart: what it last wrote stays in both
 * cases. `reason` says why the liveness probe uses no port.
 */
export function toProbes(readiness: object | null, reason = 'pods share the ports of the host'): object {
  const isAlive = { exec: { command: [...heartbeatProbe] } };
  return {
    startupProbe: explain(
      `vipnat writes until when it is alive, in seconds since boot. No port is used, because ${reason}.`,
      { ...isAlive, periodSeconds: 2, timeoutSeconds: 5, failureThreshold: 30 },
    ),
    ...(readiness === null ? {} : { readinessProbe: readiness }),
    livenessProbe: explain(
      'It fails only if vipnat hangs. If the API or a tool fails, a restart would not help.',
      { ...isAlive, periodSeconds: 20, timeoutSeconds: 10, failureThreshold: 6 },
    ),
  };
}

/** Asks a server in the network of the node: one that listens at every address, at the loopback one. */
export function askOnHost({ address, port }: Endpoint, path: string): object {
  const host = loopbacks.get(address) ?? address;
  return { httpGet: { path, host, port }, periodSeconds: 5, timeoutSeconds: 5, failureThreshold: 3 };
}

const loopbacks: ReadonlyMap<string, string> = new Map([
  ['0.0.0.0', '127.0.0.1'],
  ['::', '::1'],
]);

/** Something of the host that the container sees. */
export interface HostVolume {
  readonly name: string;
  readonly path: string;
  /** Where it is in the container; at the same path unless given. */
  readonly mountPath?: string;
  /** What kubelet makes sure of before the container starts. What it may create the container may write. */
  readonly type: 'File' | 'FileOrCreate' | 'Directory' | 'DirectoryOrCreate';
  /** What it is for, in a line for the manifest. */
  readonly purpose: string;
}

/**
 * What of the host the agent needs, each path once. The agent's own socket is not among it: it is abstract, so it belongs to
 * the host's network.
 */
function findVolumes({ stateDir, runDir, caFile, kubeconfig }: Config, isPrivileged: boolean): HostVolume[] {
  const volumes: HostVolume[] = [
    lock,
    ...(isPrivileged ? [modules] : []),
    toFolderVolume('state', stateDir, 'the state file: the last known apiservers, for the next start'),
    toFolderVolume('run', runDir, 'the track file: whether this node can serve the VIP'),
  ];
  if (caFile !== null) volumes.push(toFileVolume('ca-file', caFile, "the cluster's CA"));
  if (kubeconfig !== null) {
    volumes.push(
      toFileVolume('kubeconfig', kubeconfig, 'credentials; the pod does not mount the files that they name'),
    );
  }
  return [...new Map(volumes.toReversed().map((volume) => [volume.path, volume])).values()].toReversed();
}

/** What a container needs, in addition to `NET_RAW`, to read iptables-legacy. */
export const lock: HostVolume = {
  name: 'xtables-lock',
  path: '/run/xtables.lock',
  type: 'FileOrCreate',
  purpose: "iptables-legacy's lock, which all its processes on the host share",
};

/**
 * Only who has CAP_SYS_MODULE can load one. A node whose kernel has everything built in may have no /lib/modules: as `Directory` that
 * would keep the pod from starting, and any other type has the kubelet or the runtime make it on the node. Every node has
 * /lib. In the image /lib/modules is a link to what is in it.
 */
const modules: HostVolume = {
  name: 'modules',
  path: '/lib',
  mountPath: '/host/lib',
  type: 'Directory',
  purpose: 'iptables-legacy loads missing kernel modules from /lib/modules',
};

/** `volumes` of a pod's spec, each with its purpose. */
export function toPodVolumes(volumes: readonly HostVolume[]): object[] {
  return volumes.map(({ name, path, type, purpose }) => explain(purpose, { name, hostPath: { path, type } }));
}

/** `volumeMounts` of a container. */
export function toVolumeMounts(volumes: readonly HostVolume[]): object[] {
  return volumes.map(({ name, path, mountPath = path, type }) => ({
    name,
    mountPath,
    ...(type.endsWith('OrCreate') ? {} : { readOnly: true }),
  }));
}

/** A folder of the host, which the kubelet makes where it is missing. */
export function toFolderVolume(name: string, path: string, purpose: string): HostVolume {
  return { name, path: path.replace(/\/$/, ''), type: 'DirectoryOrCreate', purpose };
}

function toFileVolume(name: string, path: string, purpose: string): HostVolume {
  return { name, path, type: 'File', purpose };
}

// Kubernetes reads by YAML 1.1, where `on` and `1_000` are no texts.
const form = { compat: 'yaml-1.1', aliasDuplicateObjects: false } as const;

/** A value for a manifest with what people read above it, one or more lines; empty for nothing. */
export function explain(comment: string, value: unknown): object {
  const node = new Document(value, form).contents as Node;
  if (comment !== '') node.commentBefore = indentComment(comment);
  return node;
}

/** For keepalived's pid files, at /run. 2.3.3 makes BFD's too, which only some builds have an option for, and does not start where it cannot. */
export const pidVolume = explain("keepalived's process ids", {
  name: 'pids',
  emptyDir: { medium: 'Memory', sizeLimit: '1Mi' },
});

function indentComment(comment: string): string {
  return comment.replaceAll(/^/gm, ' ');
}

/**
 * Manifests as one YAML text, with a comment above the first: whoever reads it, by YAML 1.1 as Kubernetes does or by 1.2, gets the
 * same objects.
 */
export function formatManifests(comment: string, manifests: readonly object[]): string {
  const documents = manifests.map((manifest) => new Document(manifest, form));
  for (const document of documents) visit(document, { Pair: raiseComment });
  const [first] = documents;
  if (first !== undefined) first.commentBefore = indentComment(comment);
  return documents.map((document) => document.toString({ lineWidth: 0, singleQuote: true })).join('---\n');
}

/** What is said of a map's value is above its key. */
function raiseComment(_: unknown, { key, value }: Pair): void {
  if (!isNode(key) || !isNode(value) || !value.commentBefore) return;
  key.commentBefore = value.commentBefore;
  value.commentBefore = null;
}
