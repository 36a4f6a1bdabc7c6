/**
 * What a kubelet makes of a pod, said to podman. It throws at whatever it has no translation for, so that a container here
 * never has more or less than the manifest says.
 */
import * as z from 'zod/mini';

const capabilities = z.strictObject({ drop: z.array(z.string()), add: z.array(z.string()) });

const securityContext = z.strictObject({
  privileged: z.optional(z.literal(true)),
  runAsUser: z.number(),
  allowPrivilegeEscalation: z.optional(z.literal(false)),
  readOnlyRootFilesystem: z.optional(z.literal(true)),
  capabilities: z.optional(capabilities),
  seccompProfile: z.optional(z.strictObject({ type: z.literal('RuntimeDefault') })),
  seLinuxOptions: z.optional(z.strictObject({ type: z.string(), level: z.string() })),
});

const variable = z.union([
  z.strictObject({ name: z.string(), value: z.string() }),
  z.strictObject({
    name: z.string(),
    valueFrom: z.strictObject({ fieldRef: z.strictObject({ fieldPath: z.literal('spec.nodeName') }) }),
  }),
]);

const container = z.strictObject({
  name: z.string(),
  image: z.string(),
  args: z.array(z.string()),
  env: z.optional(z.array(variable)),
  securityContext,
  volumeMounts: z.array(
    z.strictObject({ name: z.string(), mountPath: z.string(), readOnly: z.optional(z.boolean()) }),
  ),
  // Of the node's resources, and what the kubelet itself asks and tells.
  ...ignore(
    'imagePullPolicy',
    'resources',
    'terminationMessagePolicy',
    'livenessProbe',
    'readinessProbe',
    'startupProbe',
    'ports',
  ),
});

const hostPath = z.strictObject({
  path: z.string(),
  type: z.enum(['File', 'FileOrCreate', 'Directory', 'DirectoryOrCreate']),
});

const pod = z.strictObject({
  hostNetwork: z.literal(true),
  automountServiceAccountToken: z.optional(z.boolean()),
  terminationGracePeriodSeconds: z.number(),
  containers: z.tuple([container]),
  volumes: z.array(z.strictObject({ name: z.string(), hostPath })),
  ...ignore('serviceAccountName', 'affinity', 'tolerations', 'priority', 'priorityClassName'),
  ...ignore('dnsPolicy', 'enableServiceLinks'),
});

type SecurityContext = z.infer<typeof securityContext>;
type HostPath = z.infer<typeof hostPath>;

/** A pod's container as podman takes it. */
export interface PodContainer {
  readonly image: string;
  /** Behind the entry point. */
  readonly args: readonly string[];
  readonly flags: readonly string[];
  /** A script for the node: makes what the kubelet would, and fails where it would. */
  readonly preparation: string;
  /** Whether the kubelet gives it the credentials of its service account. */
  readonly hasCredentials: boolean;
  readonly stopLimitSeconds: number;
}

/** The node that a pod is on. */
export interface PodNode {
  readonly name: string;
}

/** The container of a pod's spec, on a node. */
export function toPodContainer(spec: unknown, { name: nodeName }: PodNode): PodContainer {
  const { automountServiceAccountToken, containers, volumes, terminationGracePeriodSeconds } =
    pod.parse(spec);
  const [{ image, args, env = [], securityContext: rights, volumeMounts }] = containers;
  const nameToHostPath = new Map(volumes.map(({ name, hostPath }) => [name, hostPath]));
  const mounts = volumeMounts.map(({ name, mountPath, readOnly = false }) => {
    const path = nameToHostPath.get(name)?.path;
    if (path === undefined) throw new Error(`the pod has no volume ${name}`);
    return `--volume=${path}:${mountPath}${readOnly ? ':ro' : ''}`;
  });
  return {
    image,
    args: args.map(expandArgument),
    flags: [
      '--network=host',
      ...env.map((one) => `--env=${one.name}=${'value' in one ? one.value : nodeName}`),
      ...toRightFlags(rights),
      ...mounts,
    ],
    preparation: [...nameToHostPath.values()].map(toPreparation).join('\n'),
    hasCredentials: automountServiceAccountToken !== false,
    stopLimitSeconds: terminationGracePeriodSeconds,
  };
}

function toRightFlags(rights: SecurityContext): string[] {
  const { privileged = false, capabilities: { drop, add } = { drop: [], add: [] } } = rights;
  return [
    `--user=${rights.runAsUser}`,
    ...(privileged ? ['--privileged'] : []),
    ...drop.map((name) => `--cap-drop=${name}`),
    ...add.map((name) => `--cap-add=${name}`),
    ...(rights.allowPrivilegeEscalation === false ? ['--security-opt=no-new-privileges'] : []),
    ...Object.entries(rights.seLinuxOptions ?? {}).map(
      ([part, value]) => `--security-opt=label=${part}:${value}`,
    ),
    // podman would put a writable /run and /tmp there.
    ...(rights.readOnlyRootFilesystem === true ? ['--read-only', '--read-only-tmpfs=false'] : []),
    // Without a word the kubelet takes none; podman takes its default.
    ...(rights.seccompProfile === undefined ? ['--security-opt=seccomp=unconfined'] : []),
  ];
}

function toPreparation({ path, type }: HostPath): string {
  const quoted = `'${path}'`;
  switch (type) {
    case 'File':
      return `test -f ${quoted}`;
    case 'FileOrCreate':
      return `test -e ${quoted} || touch ${quoted}`;
    case 'Directory':
      return `test -d ${quoted}`;
    case 'DirectoryOrCreate':
      return `mkdir -p ${quoted}`;
  }
}

function expandArgument(text: string): string {
  if (/(?<!\$)(?:\$\$)*\$\(/.test(text)) throw new Error(`${text} names a variable, and none is given`);
  return text.replaceAll('$$', () => '$');
}

function ignore<Name extends string>(...names: readonly Name[]) {
  return Object.fromEntries(names.map((name) => [name, z.optional(z.unknown())])) as Record<
    Name,
    z.ZodMiniOptional<z.ZodMiniUnknown>
  >;
}
