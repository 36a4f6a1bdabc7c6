import { readFile, stat } from 'node:fs/promises';
import { isInFirstPidNamespace } from './processes.ts';

/** Tells of a path without a file whether the host may have one there all the same. */
export type PathView = (path: string) => boolean;

/**
 * How far this process sees the host's files. In a container it sees only what is mounted there. Below another mount than
 * the root, a file that is not seen is not there. Reads only, and never rejects.
 */
export async function viewHostPaths(): Promise<PathView> {
  const mounts = await readMountPoints();
  return (await isInContainer(mounts)) ? (path) => !isMounted(path, mounts) : () => false;
}

/** Whether a path is at or below one of these mount points, but for the root. Pure. */
export function isMounted(path: string, mounts: ReadonlySet<string>): boolean {
  const parts = path.split('/').filter((part) => part !== '');
  return parts.some((_, index) => mounts.has(`/${parts.slice(0, index + 1).join('/')}`));
}

/**
 * From the machine's own pid namespace its first process can be asked. Elsewhere containers are known by what is mounted
 * into each of them: docker, podman and the kubelet mount /etc/hosts, and podman without it its mark. docker's mark,
 * /.dockerenv, proves nothing: machines whose disk was made from a container's image have it too.
 */
async function isInContainer(mounts: ReadonlySet<string>): Promise<boolean> {
  if (await isInFirstPidNamespace()) {
    const isShared = await hasRootOfFirst().catch(() => null);
    if (isShared !== null) return !isShared;
  }
  return mounts.has('/etc/hosts') || mounts.has('/run/.containerenv');
}

/** A chroot into the host's files has the same root, whatever its mount namespace is. */
async function hasRootOfFirst(): Promise<boolean> {
  const [own, first] = await Promise.all(['/', '/proc/1/root/'].map((path) => stat(path, { bigint: true })));
  return own?.dev === first?.dev && own?.ino === first?.ino;
}

/** See proc_pid_mountinfo(5): the fifth field, with blanks in octal. */
async function readMountPoints(): Promise<ReadonlySet<string>> {
  const text = await readFile('/proc/self/mountinfo', 'utf8').catch(() => '');
  const points = text.split('\n').map((line) => line.split(' ')[4] ?? '/');
  return new Set(
    points.map((point) => point.replaceAll(/\\([0-7]{3})/g, (_, code: string) => fromOctal(code))),
  );
}

function fromOctal(code: string): string {
  return String.fromCharCode(Number.parseInt(code, 8));
}
