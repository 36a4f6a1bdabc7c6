import { readdir, readFile, readlink } from 'node:fs/promises';

/** A process of this network namespace, or one that may be. */
export interface HostProcess {
  readonly pid: number;
  /** False when its namespace may not be asked for, as by an ordinary user: it may be another's, as a container's. */
  readonly isSurelyHere: boolean;
  /** As the kernel has it: at most 15 characters, of the process's own choice. */
  readonly name: string;
  /** Its command line, the program first; empty for a kernel thread. */
  readonly arguments: readonly string[];
  /** Its control group in the hierarchy that systemd names, as `/system.slice/haproxy.service`; empty when unknown. */
  readonly group: string;
}

/**
 * The processes of this network namespace, as far as they are seen from this process's pid namespace: in a container
 * without the host's, none but its own. One whose namespace may not be asked for is in the list, and says so.
 */
export async function listProcesses(): Promise<HostProcess[]> {
  const own = await readlink('/proc/self/ns/net');
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const found = await Promise.all(pids.map((pid) => readProcess(pid, own)));
  return found.filter((process) => process !== null);
}

/** One that ends meanwhile is none. */
async function readProcess(pid: string, namespace: string): Promise<HostProcess | null> {
  try {
    const place = await findPlace(namespace, pid);
    if (place === 'elsewhere') return null;
    const [name, line, groups] = await Promise.all(
      ['comm', 'cmdline', 'cgroup'].map((file) => readFile(`/proc/${pid}/${file}`, 'utf8')),
    );
    return {
      pid: Number(pid),
      isSurelyHere: place === 'here',
      name: name?.trim() ?? '',
      arguments: (line ?? '').split('\0').filter((word) => word !== ''),
      group: /^(?:0:|\d+:name=systemd):(.*)$/m.exec(groups ?? '')?.[1] ?? '',
    };
  } catch {
    return null;
  }
}

async function findPlace(namespace: string, pid: string): Promise<'here' | 'elsewhere' | 'hidden'> {
  try {
    return (await readlink(`/proc/${pid}/ns/net`)) === namespace ? 'here' : 'elsewhere';
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EACCES') return 'hidden';
    throw error;
  }
}

/** Whether this process is in the pid namespace of the machine itself, from which all processes are seen. */
export async function isInFirstPidNamespace(): Promise<boolean> {
  return (await readlink('/proc/self/ns/pid').catch(() => '')) === `pid:[${PROC_PID_INIT_INO}]`;
}

// linux/proc_ns.h
const PROC_PID_INIT_INO = 0xeffffffc;
