import type { LocalAddress } from './port.ts';
import { networkInterfaces, endianness } from 'node:os';
import {
  parseAddress,
  readAddressBytes,
  explainUnfit,
  type SubnetAddress,
  type Family,
  type Endpoint,
} from '../net.ts';
import { stat, readFile, readdir, readlink, access } from 'node:fs/promises';
import { createReadStream, fstatSync, readFileSync } from 'node:fs';
import { isInPath } from './tools.ts';
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { withNetlinkClient, type NetlinkMessage, parseAttributes } from './netlink.ts';
import { ignoreMissing } from '../errors.ts';

/** An address of this host with its subnet. */
export type InterfaceAddress = LocalAddress & SubnetAddress;

/** The addresses of this network namespace's interfaces that are up, without loopback and link-local ones. */
export function readInterfaces(): InterfaceAddress[] {
  return Object.entries(networkInterfaces()).flatMap(([label, addresses = []]) =>
    addresses.flatMap(({ address, cidr, internal }) => {
      const parsed = parseAddress(address);
      const isLinkLocal = /^(169\.254\.|fe[89ab])/.test(address);
      if (parsed === null || cidr === null || internal || isLinkLocal) return [];
      const prefixLength = Number(cidr.slice(cidr.indexOf('/') + 1));
      // glibc's getifaddrs gives an address's label for its interface: `eth0:1` is on eth0.
      const device = label.replace(/:.*/, '');
      return [{ family: parsed.family, address: parsed.text, device, prefixLength }];
    }),
  );
}

/** Where the default IPv4 routes of this network namespace lead. None where they cannot be read. Source: net/ipv4/fib_trie.c, fib_route_seq_show. */
export function readGateways(): string[] {
  try {
    return readFileSync('/proc/net/route', 'utf8')
      .split('\n')
      .flatMap((row) => {
        const [, to, via = ''] = row.split(/\s+/);
        if (to !== '00000000' || via === '00000000') return [];
        return [toBytes(via).join('.')];
      });
  } catch {
    return [];
  }
}

/** Why an address can be no virtual IP, by this host's addresses and gateways; null where nothing speaks against it. */
export function explainUnfitHere(address: string): string | null {
  return explainUnfit(address, readInterfaces(), readGateways());
}

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
  const fromOctal = (_: string, code: string) => String.fromCharCode(Number.parseInt(code, 8));
  return new Set(points.map((point) => point.replaceAll(/\\([0-7]{3})/g, fromOctal)));
}

/** A TCP socket of this network namespace that takes connections. */
export interface Listener {
  readonly family: Family;
  /** Canonical text; `0.0.0.0` and `::` are every address. */
  readonly address: string;
  readonly port: number;
  /** The process that has it open; null when none of the given processes has. */
  readonly pid: number | null;
}

/** All that listens here. The owners are looked for among these processes. */
export async function readListeners(pids: readonly number[]): Promise<Listener[]> {
  const tables = await Promise.all(
    ['/proc/net/tcp', '/proc/net/tcp6'].map((path) => readFile(path, 'utf8').catch(() => '')),
  );
  const sockets = tables.flatMap(parseListeners);
  const inodeToPid = await findOwners(new Set(sockets.map(({ inode }) => inode)), pids);
  return sockets.map(({ inode, ...socket }) => ({ ...socket, pid: inodeToPid.get(inode) ?? null }));
}

/** Where connections are taken: who has the socket open is another question. */
export type ListeningAddress = Pick<Listener, 'address' | 'port'>;

/**
 * All that listens here, without the owners; null where that cannot be read. The kernel lists listening sockets before all
 * others, so a host with many connections costs no more.
 */
export async function readListeningAddresses(): Promise<readonly ListeningAddress[] | null> {
  try {
    // A kernel without IPv6 has no such table.
    const ipv6 = readFirstSockets('/proc/net/tcp6').catch(ignoreMissing);
    const tables = await Promise.all([readFirstSockets('/proc/net/tcp'), ipv6]);
    return tables.flatMap((text) => parseListeners(text ?? ''));
  } catch {
    return null;
  }
}

/** The table at least as far as its listening sockets go. Source: net/ipv4/tcp_ipv4.c, tcp_get_idx. */
async function readFirstSockets(path: string): Promise<string> {
  let text = '';
  for await (const chunk of createReadStream(path, { encoding: 'latin1' })) {
    text += chunk as string;
    if (/^ *\d+: \S+ \S+ (?!0A)\S\S /m.test(text)) break;
  }
  return text;
}

/**
 * Whether connections to an endpoint of this host get to a listening socket. One at `::` takes those over IPv4 too, unless
 * its program forbade that, which no table tells.
 */
export function isReachedBy(endpoint: Endpoint, { address, port }: ListeningAddress): boolean {
  const ipv4 =
    endpoint.family === 'ipv4' ? ['0.0.0.0', parseAddress(`::ffff:${endpoint.address}`)?.text] : [];
  return port === endpoint.port && [endpoint.address, '::', ...ipv4].includes(address);
}

/** The listening sockets of /proc/net/tcp or tcp6. Source: net/ipv4/tcp_ipv4.c, get_tcp4_sock; state 0A is TCP_LISTEN. */
export function parseListeners(text: string): (Omit<Listener, 'pid'> & { readonly inode: string })[] {
  return [
    ...text.matchAll(/^ *\d+: ([0-9A-F]{8}|[0-9A-F]{32}):([0-9A-F]{4}) \S+ 0A (?:\S+ +){5}(\d+) /gm),
  ].flatMap(([, host = '', port = '', inode = '']) => {
    const address = readAddressBytes(toBytes(host));
    const family = host.length === 8 ? 'ipv4' : 'ipv6';
    return address === null ? [] : [{ family, address, port: Number.parseInt(port, 16), inode }];
  });
}

/** 32-bit words as the processor has them. */
function toBytes(hex: string): Buffer {
  const words = Buffer.from(hex, 'hex');
  return endianness() === 'LE' ? words.swap32() : words;
}

async function findOwners(
  inodes: ReadonlySet<string>,
  pids: readonly number[],
): Promise<ReadonlyMap<string, number>> {
  const owners = new Map<string, number>();
  await Promise.all(
    pids.map(async (pid) => {
      const folder = `/proc/${pid}/fd`;
      const files = await readdir(folder).catch(() => []);
      const targets = await Promise.all(files.map((file) => readlink(`${folder}/${file}`).catch(() => '')));
      for (const target of targets) {
        const inode = /^socket:\[(\d+)\]$/.exec(target)?.[1] ?? '';
        if (inodes.has(inode)) owners.set(inode, pid);
      }
    }),
  );
  return owners;
}

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

/** What this process may do to the network, see capabilities(7). */
export type Rights = Readonly<Record<'hasNetAdmin' | 'hasNetRaw', boolean>>;

// linux/capability.h
const CAP_NET_ADMIN = 12n;
const CAP_NET_RAW = 13n;

/** The effective capabilities of this process. */
export async function readRights(): Promise<Rights> {
  const text = await readFile('/proc/self/status', 'utf8');
  const effective = BigInt(`0x${/^CapEff:\s*([0-9a-f]+)$/m.exec(text)?.[1] ?? '0'}`);
  const has = (capability: bigint) => ((effective >> capability) & 1n) === 1n;
  return { hasNetAdmin: has(CAP_NET_ADMIN), hasNetRaw: has(CAP_NET_RAW) };
}

/** Standard output. */
const descriptor = 1;

/**
 * Calls back once, when standard output is a pipe whose last reader went away. It keeps no process alive. Node has no call
 * that notices this without a write, so a `tail` child (coreutils 8.28 and later) waits for it. Other output, and a host
 * without such a tail, get no call: there the next write finds out.
 */
export function watchStdoutReader(onGone: () => void): void {
  if (!fstatSync(descriptor).isFIFO() || !isInPath('tail')) return;
  // The child holds the pipe open too. --pid ends it within a second when this process is killed.
  const child = spawn('tail', [`--pid=${process.pid}`, '--follow', '/dev/null'], {
    stdio: ['ignore', descriptor, 'ignore'],
    env: { ...process.env, LC_ALL: 'C' },
  });
  child.unref();
  process.once('exit', () => child.kill('SIGKILL'));
  child.once('error', () => undefined);
  child.once('exit', (_, signal) => {
    // coreutils 9.1 ends itself so when nobody reads. A tail that does not know these options exits with a status.
    if (signal === 'SIGPIPE') onGone();
  });
}

/** Where systemd searches for units, see systemd.unit(5). */
const folders = [
  '/etc/systemd/system',
  '/run/systemd/system',
  '/usr/local/lib/systemd/system',
  '/usr/lib/systemd/system',
  '/lib/systemd/system',
];

/** Those of these services that have a unit of systemd on this host, by their names without `.service`. */
export async function listUnits(names: readonly string[]): Promise<ReadonlySet<string>> {
  const found = names.flatMap((name) =>
    folders.map(async (folder) => {
      await access(join(folder, `${name}.service`));
      return name;
    }),
  );
  return new Set((await Promise.allSettled(found)).flatMap((one) => ('value' in one ? [one.value] : [])));
}

/** A Unix socket that listens, as the kernel knows it. */
interface ListeningSocket {
  /** Its number, which no other socket has while it is there. */
  readonly inode: number;
  /** The user who made it, as this user namespace counts; null where the kernel does not tell (before Linux 5.3). */
  readonly userId: number | null;
}

/**
 * Finds the socket that listens at an abstract name, given without its NUL, in this network namespace; null when there is
 * none. The kernel reports its owner, so a listener cannot forge it. Needs no rights.
 * @throws VipnatError NETLINK_FAILED
 */
export async function findListeningSocket(name: string): Promise<ListeningSocket | null> {
  const payload = renderQuestion();
  const subject = 'the Unix sockets that listen';
  const messages = await withNetlinkClient('sock-diag', (client) =>
    client.request({ type: SOCK_DIAG_BY_FAMILY, payload, isDump: true, subject }),
  );
  return messages.map((message) => readSocket(message, name)).find((found) => found !== null) ?? null;
}

// linux/sock_diag.h, linux/unix_diag.h, linux/socket.h, net/tcp_states.h
const SOCK_DIAG_BY_FAMILY = 20;
const AF_UNIX = 1;
const TCP_LISTEN = 10;
const UDIAG_SHOW_NAME = 0x01;
const UDIAG_SHOW_UID = 0x40;
const UNIX_DIAG_NAME = 0;
const UNIX_DIAG_UID = 7;
const unixDiagReqBytes = 24;
const unixDiagMsgBytes = 16;

/** struct unix_diag_req: all that listen, with name and user. */
function renderQuestion(): Buffer {
  const request = Buffer.alloc(unixDiagReqBytes);
  request.writeUInt8(AF_UNIX, 0);
  request.writeUInt32LE(1 << TCP_LISTEN, 4);
  request.writeUInt32LE(UDIAG_SHOW_NAME | UDIAG_SHOW_UID, 12);
  return request;
}

/** Reads a struct unix_diag_msg; null for a socket of another name, or for what is no such message. Total. */
function readSocket({ type, data }: NetlinkMessage, name: string): ListeningSocket | null {
  if (type !== SOCK_DIAG_BY_FAMILY || data.length < unixDiagMsgBytes) return null;
  const attributes = parseAttributes(data, unixDiagMsgBytes);
  if (attributes.get(UNIX_DIAG_NAME)?.equals(Buffer.from(`\0${name}`)) !== true) return null;
  const user = attributes.get(UNIX_DIAG_UID);
  return { inode: data.readUInt32LE(4), userId: user?.length === 4 ? user.readUInt32LE() : null };
}

/** /proc/net/ip_vs, or null where the kernel has no IPVS (ip_vs is not loaded). */
export async function readIpvs(): Promise<string | null> {
  return await readFile('/proc/net/ip_vs', 'utf8').catch(ignoreMissing);
}
