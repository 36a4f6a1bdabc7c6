import { readFile } from 'node:fs/promises';
import { readIfThere } from '../files/optional-file.ts';
import { findNamedFile, keepalivedName } from './find.ts';

/** A keepalived that runs. */
export interface RunningKeepalived {
  readonly pid: number;
  /** Since the machine's start, in milliseconds. With the pid it names one process, and no later one of the same pid. */
  readonly startedMs: number;
  readonly ageMs: number;
}

/** Where a keepalived of vipnat's has its configuration, and where it says its pid. */
export interface KeepalivedPlace {
  readonly file: string;
  readonly pidFile: string;
}

/**
 * The process that a pid file names, if it is a keepalived that was started with that configuration: a pid file outlives its
 * process, whose number another one may have by now. In a container it has to be the same pid namespace. Null for no such
 * process. Never rejects.
 */
export async function findRunning({ file, pidFile }: KeepalivedPlace): Promise<RunningKeepalived | null> {
  const text = await readIfThere(pidFile, { maxBytes: 32, refusesLink: true }).catch(() => null);
  const pid = /^\s*([1-9]\d{0,8})\s*$/.exec(text ?? '')?.[1];
  if (pid === undefined) return null;
  const read = (name: string) => readFile(`/proc/${name}`, 'utf8');
  try {
    const name = (await read(`${pid}/comm`)).trim();
    const words = (await read(`${pid}/cmdline`)).split('\0');
    if (name !== keepalivedName || findNamedFile(words) !== file) return null;
    const startedMs = readStart(await read(`${pid}/stat`));
    const upMs = Number((await read('uptime')).split(' ')[0]) * 1000;
    return { pid: Number(pid), startedMs, ageMs: upMs - startedMs };
  } catch {
    // It has ended meanwhile.
    return null;
  }
}

/** proc_pid_stat(5): the 22nd field, in clock ticks, of which a second has 100 on every architecture. The second one may have blanks. */
function readStart(stat: string): number {
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return Number(fields[19]) * 10;
}

/** Has a running keepalived read its configuration again. Answers whether it was there to hear it. */
export function reloadRunning({ pid }: RunningKeepalived): boolean {
  try {
    return process.kill(pid, 'SIGHUP');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false;
    throw error;
  }
}
