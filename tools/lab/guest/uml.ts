import { fileURLToPath } from 'node:url';
import { hasLargeRegisters, provideWholeRegisters } from '../build/whole-registers.ts';
import { join } from 'node:path';

const init = fileURLToPath(new URL('init.sh', import.meta.url));

/** How a user-mode Linux machine is started. */
export interface UmlOptions {
  /** The kernel's file; that of Debian's package when left out. */
  readonly kernel?: string | undefined;
  readonly memoryMb: number;
  /** The TypeScript program that its first process runs with this Node; the machine goes off when that ends. */
  readonly program: string;
  /** What the machine writes: `output` of the program, and whatever the program leaves there (GUEST_FOLDER). */
  readonly folder: string;
  readonly environment?: Readonly<Record<string, string>>;
  /** Interfaces of the caller's network namespace that become vec0, vec1, … of the machine. */
  readonly interfaces?: readonly string[];
  /** The processor that it keeps to; whichever is free by default. */
  readonly cpu?: number;
  /** Libraries that its kernel is started with; what this processor needs when left out. */
  readonly libraries?: readonly string[];
}

/**
 * The command line of a machine on this host's own files, whose kernel has IPVS. Its console goes to standard output.
 * Source: Documentation/virt/uml/user_mode_linux_howto_v2.rst of Linux.
 * @throws LabError when a library cannot be built that this processor needs.
 */
export async function umlCommand(options: UmlOptions): Promise<string[]> {
  const { kernel = 'linux.uml', memoryMb, program, folder, environment = {}, interfaces = [], cpu } = options;
  const libraries = options.libraries ?? (hasLargeRegisters() ? [await provideWholeRegisters()] : []);
  const variables = {
    GUEST_NODE: process.execPath,
    GUEST_PROGRAM: program,
    GUEST_FOLDER: folder,
    ...environment,
  };
  return [
    // Every system call in there stops one process of it and wakes another: 15 µs on one processor, 40 µs across two.
    ...(cpu === undefined ? [] : ['taskset', '--cpu-list', String(cpu)]),
    ...(libraries.length === 0 ? [] : ['env', `LD_PRELOAD=${libraries.join(':')}`]),
    kernel,
    ...[`mem=${memoryMb}M`, 'root=/dev/root', 'rootfstype=hostfs', 'hostfs=/', 'rw', 'quiet'],
    ...['con=null', 'con0=null,fd:1', `init=${init}`, `uml_dir=${join(folder, 'uml')}`],
    ...interfaces.map((name, index) => `vec${index}:transport=raw,ifname=${name},depth=64,gro=0`),
    ...Object.entries(variables).map(([name, value]) => `${name}=${value}`),
  ];
}
