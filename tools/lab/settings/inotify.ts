import { readdirSync, statSync, readFileSync, readlinkSync } from 'node:fs';

/** How many inotify instances there may be and are. */
export interface InotifyInstances {
  readonly allowed: number;
  readonly used: number;
}

/**
 * How many inotify instances the calling user may have, and has in these processes: all that this machine shows, when left out. An
 * instance that several processes share counts for each of them.
 */
export function countInotifyInstances(
  processes: readonly string[] = readdirSync('/proc').filter((name) => /^\d+$/.test(name)),
): InotifyInstances {
  const user = process.getuid?.();
  const own = processes.filter((pid) => attempt(() => statSync(`/proc/${pid}`).uid) === user);
  return {
    allowed: Number(readFileSync('/proc/sys/fs/inotify/max_user_instances', 'utf8')),
    used: own.flatMap(listDescriptors).filter((link) => link === 'anon_inode:inotify').length,
  };
}

/** What a process has open. */
function listDescriptors(pid: string): (string | undefined)[] {
  const folder = `/proc/${pid}/fd`;
  const names = attempt(() => readdirSync(folder)) ?? [];
  return names.map((name) => attempt(() => readlinkSync(`${folder}/${name}`)));
}

/** Undefined for what has ended or been closed meanwhile. */
function attempt<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
