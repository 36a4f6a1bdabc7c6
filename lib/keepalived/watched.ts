import { readdir, readFile, stat } from 'node:fs/promises';
import { type HostProcess } from '../kernel/host/processes.ts';
import { ForeignRoot } from './foreign-root.ts';

/**
 * Whether a running keepalived watches a folder: it watches those of the files that it tracks from when it starts or is
 * reloaded, and drops for good a file whose folder is not there then (keepalived 2.2.7: "Track file directory for serving
 * does not exist - removing"). Null where no keepalived runs. Only reads. Rejects, as node:fs does, where a process may not
 * be asked.
 */
export async function isFolderWatched(
  processes: readonly HostProcess[],
  folder: string,
): Promise<boolean | null> {
  // The second is what `process_names` calls the one that holds addresses.
  const running = processes.filter(
    ({ name, isSurelyHere }) => isSurelyHere && ['keepalived', 'keepalived_vrrp'].includes(name),
  );
  const watched = await Promise.all(running.map(({ pid }) => watchesFolder(pid, folder)));
  const known = watched.filter((one) => one !== null);
  return known.length === 0 ? null : known.includes(true);
}

/** Null for a process that ended meanwhile. */
async function watchesFolder(pid: number, folder: string): Promise<boolean | null> {
  const inodes = await listWatchedInodes(pid);
  if (inodes === null) return null;
  const root = await ForeignRoot.of(pid);
  const status = await stat(await root.locate(folder), { bigint: true }).catch(() => null);
  return status !== null && inodes.has(status.ino.toString(16));
}

/** As the kernel writes them: `inotify wd:1 ino:98401b sdev:fe00000 mask:2c8 …`, see proc_pid_fdinfo(5). */
async function listWatchedInodes(pid: number): Promise<ReadonlySet<string> | null> {
  try {
    const folder = `/proc/${pid}/fdinfo`;
    const texts = (await readdir(folder)).map((name) =>
      readFile(`${folder}/${name}`, 'utf8').catch(ignoreEnd),
    );
    const lines = (await Promise.all(texts)).join('\n').matchAll(/^inotify wd:\S+ ino:([0-9a-f]+) /gm);
    return new Set([...lines].map(([, inode = '']) => inode));
  } catch (error) {
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return null;
    throw error;
  }
}

/** A file of the process that was closed meanwhile. */
function ignoreEnd(error: unknown): string {
  if ((error as NodeJS.ErrnoException).code === 'ENOENT') return '';
  throw error;
}
