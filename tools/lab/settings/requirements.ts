import type { LabOptions } from './options.ts';
import { LabError } from './error.ts';
import { countInotifyInstances } from './inotify.ts';
import { execaSync } from 'execa';
import { readFileSync, statfsSync } from 'node:fs';

/** Programs that a lab starts, and the Debian packages they come from. */
const programToPackage: Readonly<Record<string, string>> = {
  bash: 'bash',
  curl: 'curl',
  ip: 'iproute2',
  'iptables-nft': 'iptables',
  keepalived: 'keepalived',
  nft: 'nftables',
  nsenter: 'util-linux',
  openssl: 'openssl',
  unshare: 'util-linux',
};

/** Those that only virtual machines need. */
const virtualProgramToPackage: Readonly<Record<string, string>> = {
  ethtool: 'ethtool',
  ipvsadm: 'ipvsadm',
  'linux.uml': 'user-mode-linux',
  taskset: 'util-linux',
};

/** Those that only real nodes need. */
const nodeProgramToPackage: Readonly<Record<string, string>> = {
  '/usr/lib/cni/bridge': 'containernetworking-plugins',
  buildah: 'buildah',
  containerd: 'containerd',
  debootstrap: 'debootstrap',
  runc: 'runc',
};

/** Those that only bare nodes need. */
const bareProgramToPackage: Readonly<Record<string, string>> = {
  '/usr/lib/systemd/systemd': 'systemd',
  'apt-get': 'apt',
};

/** What a kubelet and runc count and limit pods with. */
const neededControllers = ['cpu', 'memory', 'pids'];

/** Three apiservers, three members of etcd, four kube-proxies and three agents, as seen with 1.36.3; and what machines of their own take on top. */
const neededMegabytes = { namespaces: 2500, machines: 5000 };

/** User-mode Linux keeps a machine's memory in files there: three took 1.4 GB. */
const machineMemory = { folder: '/dev/shm', neededMegabytes: 2500 };

/**
 * Kubelets, containerd, controllers and agents of five nodes, as seen with 1.36.3: 70, and room for pods of tests. Without one a
 * kubelet ends as soon as it is started.
 */
const neededInotifyInstances = 80;

/** Enough for a few labs beside what else runs. */
const advisedInotifyInstances = 1024;

/** What is there of what a lab needs. */
export interface HostFacts {
  readonly isRoot: boolean;
  readonly availableMegabytes: number;
  /** Room in the folder where virtual machines keep their memory. */
  readonly machineMemoryMegabytes: number;
  /** The controllers of control groups of version 1. */
  readonly groupControllers: readonly string[];
  /** For the calling user: how many there may be, and how many there are. */
  readonly inotifyInstances: { readonly allowed: number; readonly used: number };
  isInPath(program: string): boolean;
}

/**
 * Checks what a lab needs of this machine, before anything is started.
 * @throws LabError that names everything that is missing, and the way out.
 */
export function requireHost(options: LabOptions, facts: HostFacts = readHostFacts()): void {
  if (!facts.isRoot) throw new LabError('root is needed, to make namespaces: try sudo');
  if (options.hasNodes === true) requireControllers(facts);
  requirePrograms(options, facts);
  requireMemory(options, facts);
  if (options.hasNodes === true) requireInotifyInstances(facts);
}

function requirePrograms(
  { proxyMode, hasNodes = false, isBare = false }: LabOptions,
  facts: HostFacts,
): void {
  const programs = {
    ...programToPackage,
    ...(proxyMode === 'ipvs' ? virtualProgramToPackage : {}),
    ...(hasNodes ? nodeProgramToPackage : {}),
    ...(isBare ? bareProgramToPackage : {}),
  };
  const missing = Object.keys(programs).filter((program) => !facts.isInPath(program));
  if (missing.length === 0) return;
  const packages = [...new Set(missing.map((program) => programs[program]))];
  throw new LabError(`not found: ${missing.join(', ')}. Install: apt-get install ${packages.join(' ')}`);
}

function requireMemory({ proxyMode }: LabOptions, facts: HostFacts): void {
  const isVirtual = proxyMode === 'ipvs';
  const needed = isVirtual ? neededMegabytes.machines : neededMegabytes.namespaces;
  if (facts.availableMegabytes < needed) {
    throw new LabError(
      `${isVirtual ? 'a lab in ipvs mode' : 'a lab'} takes ${needed} MB of memory, and ${facts.availableMegabytes} MB are available: free some, or take down another lab`,
    );
  }
  const { folder, neededMegabytes: neededThere } = machineMemory;
  if (isVirtual && facts.machineMemoryMegabytes < neededThere) {
    throw new LabError(
      `virtual machines keep ${neededThere} MB in ${folder}, which has room for ${facts.machineMemoryMegabytes} MB: mount -o remount,size=4G ${folder}`,
    );
  }
}

function requireControllers({ groupControllers }: HostFacts): void {
  const missing = neededControllers.filter((controller) => !groupControllers.includes(controller));
  if (missing.length === 0) return;
  throw new LabError(
    `real nodes need control groups of version 1, and here are none for ${missing.join(', ')}: start this machine with systemd.unified_cgroup_hierarchy=0 on its kernel's command line, or leave out --nodes`,
  );
}

function requireInotifyInstances({ inotifyInstances: { allowed, used } }: HostFacts): void {
  if (allowed - used >= neededInotifyInstances) return;
  const advised = Math.max(advisedInotifyInstances, used + neededInotifyInstances);
  throw new LabError(
    `real nodes take ${neededInotifyInstances} inotify instances, and ${Math.max(0, allowed - used)} of ${allowed} are free: sysctl -w fs.inotify.max_user_instances=${advised}, or take down another lab`,
  );
}

function readHostFacts(): HostFacts {
  return {
    isRoot: process.getuid?.() === 0,
    availableMegabytes: readAvailableMegabytes(),
    machineMemoryMegabytes: readFreeMegabytes(machineMemory.folder),
    groupControllers: listGroupControllers(),
    inotifyInstances: countInotifyInstances(),
    isInPath: (program) =>
      execaSync('sh', ['-c', 'command -v "$0"', program], { reject: false }).exitCode === 0,
  };
}

/** Of lines like `4:cpu,cpuacct:/path`. */
function listGroupControllers(): string[] {
  return readFileSync('/proc/self/cgroup', 'utf8')
    .split('\n')
    .flatMap((line) => line.split(':')[1]?.split(',') ?? []);
}

function readAvailableMegabytes(): number {
  const [, kilobytes = '0'] = /^MemAvailable: +(\d+) kB$/m.exec(readFileSync('/proc/meminfo', 'utf8')) ?? [];
  return Math.floor(Number(kilobytes) / 1024);
}

function readFreeMegabytes(folder: string): number {
  try {
    const { bavail, bsize } = statfsSync(folder);
    return Math.floor((bavail * bsize) / 1024 ** 2);
  } catch {
    return 0;
  }
}
