/**
 * Runs a static pod on a master of a lab, with what a container runtime makes of its spec: its volumes, a root file
 * system that it cannot write, its capabilities and no new ones. The programs are the machine's own, not an image's, and
 * there is no seccomp profile.
 */
import type { PodSpec } from '../../support/manifest/printing.ts';
import { vipnatCommand } from '../../../tools/lab/components/agent.ts';
import type { Lab } from '../../../tools/lab/control-plane/lab.ts';
import { runShell, type CommandResult } from '../../../tools/lab/machines/machine.ts';

type Container = PodSpec['containers'][0];

/** A container's program where it has no command: the entry point of vipnat's image. */
const [entryProgram = '', ...entryWords] = vipnatCommand();

/** Runs its init containers to their end, and starts its one container as the lab's service of this name. */
export async function startPod(
  lab: Lab,
  { master, service }: { readonly master: string; readonly service: 'keepalived' | 'vipnat' },
  spec: PodSpec,
): Promise<void> {
  const machine = lab.machine(master);
  const paths = spec.volumes.flatMap(({ hostPath }) => (hostPath === undefined ? [] : [hostPath]));
  const make = ({ path, type }: { path: string; type: string }) =>
    type === 'FileOrCreate' ? `[ -e ${path} ] || touch ${path}` : `mkdir -p ${path}`;
  await runShell(machine, paths.map(make).join('\n'));
  for (const container of spec.initContainers ?? []) {
    const { exitCode, stderr } = await machine.run(toCommand(container, spec));
    if (exitCode !== 0) throw new Error(`${container.name} on ${master}: ${stderr}`);
  }
  await lab.service(master, service).start(toCommand(spec.containers[0], spec));
}

/** Runs vipnat in the container of the pod of its agent, as `kubectl exec` and `crictl exec` do. */
export async function execInAgentPod(
  lab: Lab,
  { master, spec }: { readonly master: string; readonly spec: PodSpec },
  words: readonly string[],
): Promise<CommandResult> {
  const enter = ['nsenter', '--target', String(lab.service(master, 'vipnat').readPid()), '--mount'];
  return await lab
    .machine(master)
    .run([...enter, ...toConfinement(spec.containers[0]), ...vipnatCommand(...words)]);
}

/** The words that run a container in mounts of its own. */
function toCommand(container: Container, spec: PodSpec): string[] {
  const { command = [entryProgram, ...entryWords], args } = container;
  const script = [...toMounts(container, spec), 'exec "$@"'].join('\n');
  return ['unshare', '--mount', 'sh', '-ec', script, 'sh', ...toConfinement(container), ...command, ...args];
}

function toConfinement({ securityContext }: Container): string[] {
  const { add = [] } = securityContext.capabilities ?? {};
  const kept = add.map((name) => `,+${name.toLowerCase()}`).join('');
  return ['setpriv', '--no-new-privs', '--inh-caps=-all', `--bounding-set=-all${kept}`];
}

/** The machine's /run and /var/lib are mounts of their own. What of the host is mounted is opened first: another volume may hide it. */
function toMounts({ volumeMounts, securityContext }: Container, { volumes }: PodSpec): string[] {
  const mounts = volumeMounts.map(({ name, mountPath }, index) => {
    const path = volumes.find((volume) => volume.name === name)?.hostPath?.path;
    const fd = index + 3;
    const bind = `mount --no-canonicalize --bind /proc/$$/fd/${fd} ${mountPath}; exec ${fd}<&-`;
    const open = path === undefined ? '' : `exec ${fd}<${path}`;
    const mount = path === undefined ? `mount -t tmpfs tmpfs ${mountPath}` : bind;
    return { open, mount: `[ -e ${mountPath} ] || mkdir -p ${mountPath}; ${mount}` };
  });
  const isMounted = (root: string) => volumeMounts.some(({ mountPath }) => mountPath === root);
  const roots = securityContext.readOnlyRootFilesystem === true ? ['/', '/run', '/var/lib'] : [];
  return [
    ...mounts.map(({ open }) => open),
    ...mounts.map(({ mount }) => mount),
    ...roots.filter((root) => !isMounted(root)).map((root) => `mount -o remount,bind,ro ${root}`),
  ];
}
