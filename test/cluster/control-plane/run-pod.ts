/**
 * Runs a static pod on a master of a lab, with what a container runtime makes of its spec: its volumes, a root file
 * system that it cannot write, its capabilities and no new ones. The programs are the machine's own, not an image's, and
 * there is no seccomp profile.
 */
import { vipnatCommand } from '../../../lab/components/agent.ts';
import { type Lab } from '../../../lab/control-plane/lab.ts';
import { runShell } from '../../../lab/machines/machine.ts';
import { type PodSpec } from '../../support/manifest/printing.ts';

type Container = PodSpec['containers'][0];

/** A container's program where it has no command: the entry point of vipnat's image. */
const [entryProgram = '', ...entryWords] = vipnatCommand();

/** Runs its init containers to their end, and starts its one container as the lab's keepalived. */
export async function startKeepalivedPod(lab: Lab, master: string, spec: PodSpec): Promise<void> {
  const machine = lab.machine(master);
  const folders = spec.volumes.flatMap(({ hostPath }) => (hostPath === undefined ? [] : [hostPath.path]));
  await runShell(machine, folders.map((folder) => `mkdir -p ${folder}`).join('\n'));
  for (const container of spec.initContainers ?? []) {
    const { exitCode, stderr } = await machine.run(toCommand(container, spec));
    if (exitCode !== 0) throw new Error(`${container.name} on ${master}: ${stderr}`);
  }
  await lab.service(master, 'keepalived').start(toCommand(spec.containers[0], spec));
}

/** The words that run a container in mounts of its own. */
function toCommand(container: Container, spec: PodSpec): string[] {
  const { command = [entryProgram, ...entryWords], args, securityContext } = container;
  const { add = [] } = securityContext.capabilities ?? {};
  const kept = add.map((name) => `,+${name.toLowerCase()}`).join('');
  const confinement = ['setpriv', '--no-new-privs', '--inh-caps=-all', `--bounding-set=-all${kept}`];
  const script = [...toMounts(container, spec), 'exec "$@"'].join('\n');
  return ['unshare', '--mount', 'sh', '-ec', script, 'sh', ...confinement, ...command, ...args];
}

/** The machine's /run and /var/lib are mounts of their own. */
function toMounts({ volumeMounts, securityContext }: Container, { volumes }: PodSpec): string[] {
  const mounts = volumeMounts.map(({ name, mountPath }) => {
    const path = volumes.find((volume) => volume.name === name)?.hostPath?.path;
    const mount =
      path === undefined ? `mount -t tmpfs tmpfs ${mountPath}` : `mount --bind ${path} ${mountPath}`;
    return `mkdir -p ${mountPath}; ${mount}`;
  });
  const roots = securityContext.readOnlyRootFilesystem === true ? ['/', '/run', '/var/lib'] : [];
  return [...mounts, ...roots.map((root) => `mount -o remount,bind,ro ${root}`)];
}
