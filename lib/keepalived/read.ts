import { readIfThere, type GuardView } from '../files.ts';
import { readFile, stat, readdir, readlink } from 'node:fs/promises';
import {
  type HostProcess,
  listProcesses,
  isInFirstPidNamespace,
  type InterfaceAddress,
} from '../kernel/host.ts';
import {
  ForeignRoot,
  readWhole,
  expandConfiguration,
  parseStatements,
  type Statement,
  findNamedFile,
  readOptions,
} from './configuration.ts';
import { hostname } from 'node:os';
import { dirname } from 'node:path';
import { parseAddress, readAddressBytes, familyToBits, type Address, type Family } from '../net.ts';
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import { VipnatError, ignoreMissing } from '../errors.ts';

/** A keepalived that runs. */
export interface RunningKeepalived {
  readonly pid: number;
  /** Since the machine's start, in milliseconds. With the pid it names one process, and no later one of the same pid. */
  readonly startedMs: number;
  readonly ageMs: number;
}

/**
 * The process that a pid file names, if it is a keepalived that was started with that configuration: a pid file outlives its
 * process, whose number another one may have by now. In a container it has to be the same pid namespace. Null for no such
 * process. Never rejects.
 */
export async function findRunning({
  file,
  pidFile,
}: Readonly<Record<'file' | 'pidFile', string>>): Promise<RunningKeepalived | null> {
  const text = await readIfThere(pidFile, { maxBytes: 32, refusesLink: true }).catch(() => null);
  const pid = /^\s*([1-9]\d{0,8})\s*$/.exec(text ?? '')?.[1];
  if (pid === undefined) return null;
  const read = (name: string) => readFile(`/proc/${name}`, 'utf8');
  try {
    const name = (await read(`${pid}/comm`)).trim();
    const words = (await read(`${pid}/cmdline`)).split('\0');
    if (name !== keepalivedName || findNamedFile(words, await readFolder(pid)) !== file) return null;
    return { pid: Number(pid), ...(await readAge(pid)) };
  } catch {
    // It has ended meanwhile.
    return null;
  }
}

/** proc_pid_stat(5): the 22nd field, in clock ticks, of which a second has 100 on every architecture. The second one may have blanks. */
async function readAge(pid: number | string): Promise<Omit<RunningKeepalived, 'pid'>> {
  const [text, up] = await Promise.all(
    [`${pid}/stat`, 'uptime'].map((name) => readFile(`/proc/${name}`, 'utf8')),
  );
  const startedMs = Number(text?.slice(text.lastIndexOf(')') + 2).split(' ')[19]) * 10;
  return { startedMs, ageMs: Number(up?.split(' ')[0]) * 1000 - startedMs };
}

/** Has a running keepalived read its configuration again. Answers whether it was running. */
export function reloadRunning({ pid }: RunningKeepalived): boolean {
  try {
    return process.kill(pid, 'SIGHUP');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false;
    throw error;
  }
}

/** keepalived on this host, as far as can be seen. */
export interface KeepalivedView {
  /** Whether a process of that name is seen. */
  readonly isRunning: boolean;
  /** Whether this container does not see the host's processes; not where left out. */
  readonly isHidden?: boolean;
  /** What its configuration says of a VIP's instance; null where there is no such instance or no file. */
  readonly instance: { readonly vrid: number; readonly priority: number | null } | null;
}

/** What its processes are called. */
export const keepalivedName = 'keepalived';

/** Where keepalived reads its configuration by default, see keepalived(8). */
export const keepalivedFile = '/etc/keepalived/keepalived.conf';

/** Its configuration, as far as one is found. */
export interface KeepalivedConfiguration {
  /** Where it is, as its keepalived names it. */
  readonly path: string;
  /** With the files that it includes in their places, see expandConfiguration; null when there is no such file. */
  readonly text: string | null;
  /** All files that it consists of, that of `path` first. */
  readonly files: readonly string[];
}

/** How the configuration of the keepalived for Services' addresses begins: a host can also have that of the API's virtual IP. */
export const seatsMark = '# keepalived.conf by vipnat balancer';

/**
 * Tells the processes of a keepalived that holds Services' addresses from all others, be they keepalived or not, by the files that they
 * were started with. One whose file cannot be read is none of the balancer's. Never rejects.
 */
export async function partKeepalived(
  processes: readonly HostProcess[],
): Promise<Readonly<Record<'seats' | 'others', readonly HostProcess[]>>> {
  const areSeats = await Promise.all(processes.map(isOfSeats));
  return {
    seats: processes.filter((_, at) => areSeats[at]),
    others: processes.filter((_, at) => !areSeats[at]),
  };
}

async function isOfSeats({ name, pid, arguments: words }: HostProcess): Promise<boolean> {
  const path = name === keepalivedName ? findNamedFile(words, await readFolder(pid)) : null;
  if (path === null) return false;
  const root = await ForeignRoot.of(pid);
  const text = await root.read(path).catch(() => null);
  return text?.startsWith(seatsMark) ?? false;
}

/**
 * Searches for a running keepalived that does not hold Services' addresses, and for the instance of its configuration that has an
 * address. A file of the host's is read where no running one names its own. Never rejects.
 */
export async function findKeepalived(address: string, hostFile: string): Promise<KeepalivedView> {
  const { others: processes } = await partKeepalived(await listProcesses().catch(() => []));
  const { text } = await readConfiguration(processes, hostFile).catch(() => ({ text: null }));
  return {
    isRunning: processes.some(({ name }) => name === keepalivedName),
    isHidden: !(await isInFirstPidNamespace()),
    instance: findInstance(text ?? '', address),
  };
}

/**
 * Reads what a running keepalived reads, in the files that it sees itself; where none runs, or none tells, a file of the
 * host's, else the usual one. Rejects, as readWhole does, for a file that is there and may not be read.
 */
export async function readConfiguration(
  processes: readonly HostProcess[],
  hostFile: string,
): Promise<KeepalivedConfiguration> {
  const running = processes.find(({ name }) => name === keepalivedName);
  const words = running?.arguments ?? [];
  const id = readOptions(words).get('config-id') ?? hostname().replace(/\..*/, '');
  const read = async (root: ForeignRoot, path: string): Promise<KeepalivedConfiguration> => {
    const whole = await readWhole(root, path, id);
    if (whole === null) return { path, text: null, files: [] };
    return { path, text: expandConfiguration(whole.text, id), files: whole.files };
  };
  if (running !== undefined) {
    const named = findNamedFile(words, await readFolder(running.pid));
    const own = await read(await ForeignRoot.of(running.pid), named ?? keepalivedFile);
    if (named !== null || own.text !== null) return own;
  }
  const host = await read(ForeignRoot.own, hostFile);
  return host.text === null ? await read(ForeignRoot.own, keepalivedFile) : host;
}

/** The folder of a process: that of the root for one that may not be asked. */
async function readFolder(pid: number | string): Promise<string> {
  return await readlink(`/proc/${pid}/cwd`).catch(() => '/');
}

/** The vrrp_instance whose addresses hold this one, see keepalived.conf(5). Null when there is none. */
export function findInstance(text: string, address: string): KeepalivedView['instance'] {
  const instance = listInstances(text).find((one) => holdsAddress(one, address));
  const vrid = readNumber(instance, 'virtual_router_id');
  return vrid === null ? null : { vrid, priority: readNumber(instance, 'priority') };
}

/**
 * How an instance goes by a file with 1 in it: with a fault it gives its address up, with a weight its priority alone changes. That moves no
 * address from a master with nopreempt.
 */
export type Tracking = 'fault' | 'weight' | 'none';

/**
 * How the instance with this address follows a file, by itself or by its group. Null when there is no such instance. See keepalived.conf(5); the
 * weights were tried with 2.2.7.
 */
export function findTracking(text: string, address: string, path: string): Tracking | null {
  const statements = parseStatements(text);
  const instance = listBlocks(statements, 'vrrp_instance').find((one) => holdsAddress(one, address));
  if (instance === undefined) return null;
  const declared = ['track_file', 'vrrp_track_file'].flatMap((keyword) => listBlocks(statements, keyword));
  const nameToWeight = new Map(
    declared
      .filter((one) => readLast(one, 'file')?.[1] === path)
      .map((one) => [one.words[1], readLast(one, 'weight')?.[1] ?? '1']),
  );
  const listWeights = (owner: Statement) =>
    listItems(owner, 'track_file').flatMap(([name, keyword, weight]) => {
      const usual = nameToWeight.get(name);
      return usual === undefined ? [] : [Number(keyword === 'weight' ? weight : usual)];
    });
  const groups = listBlocks(statements, 'vrrp_sync_group').filter((group) =>
    listItems(group, 'group').some(([name]) => name === instance.words[1]),
  );
  // "ignoring weight from tracked file serving due to SYNC group"
  const isPlain = groups.some((group) => readLast(group, 'sync_group_tracking_weight') === undefined);
  const own = listWeights(instance).map((weight) => (isPlain ? 0 : weight));
  const weights = [...own, ...groups.flatMap(listWeights)];
  if (weights.some((weight) => weight === 0 || weight < -253)) return 'fault';
  return weights.length === 0 ? 'none' : 'weight';
}

/** An instance of a configuration: what others on the network can meet of it. */
export interface InstanceView {
  readonly name: string;
  /** Its interface; empty where none is named. */
  readonly device: string;
  readonly vrid: number;
  /** All of its addresses, in canonical text. */
  readonly addresses: readonly string[];
}

/** All instances with a virtual_router_id. */
export function viewInstances(text: string): InstanceView[] {
  return listInstances(text).flatMap((instance) => {
    const vrid = readNumber(instance, 'virtual_router_id');
    const device = readLast(instance, 'interface')?.[1] ?? '';
    return vrid === null
      ? []
      : [{ name: instance.words[1] ?? '', device, vrid, addresses: listHeld(instance) }];
  });
}

/** The names of the instances that hold an address. Pure and total. */
export function listInstanceNames(text: string, address: string): string[] {
  const holding = listInstances(text).filter((one) => holdsAddress(one, address));
  return holding.map(({ words }) => words[1] ?? '');
}

function listInstances(text: string): Statement[] {
  return listBlocks(parseStatements(text), 'vrrp_instance');
}

function listBlocks(statements: readonly Statement[], keyword: string): Statement[] {
  return statements.filter(({ words, block }) => words[0] === keyword && block !== null);
}

/** What a list in a block has, such as the addresses of virtual_ipaddress. */
function listItems({ block }: Statement, keyword: string): (readonly string[])[] {
  return listBlocks(block ?? [], keyword).flatMap((list) => (list.block ?? []).map(({ words }) => words));
}

/** The statement of a block that keepalived goes by: of several the last. */
function readLast({ block }: Statement, keyword: string): readonly string[] | undefined {
  return (block ?? []).findLast(({ words }) => words[0] === keyword)?.words;
}

function readNumber(instance: Statement | undefined, keyword: string): number | null {
  const word = instance === undefined ? undefined : readLast(instance, keyword)?.[1];
  return word !== undefined && /^\d{1,9}$/.test(word) ? Number(word) : null;
}

/** The addresses of all instances, in canonical text. */
export function listAddresses(text: string): string[] {
  return listInstances(text).flatMap(listHeld);
}

/** With or without a prefix length, and however it is spelled. */
function holdsAddress(instance: Statement, address: string): boolean {
  return listHeld(instance).includes(address);
}

/** Its addresses in canonical text, without prefix lengths. */
function listHeld(instance: Statement): string[] {
  const lists = ['virtual_ipaddress', 'virtual_ipaddress_excluded'];
  const items = lists.flatMap((list) => listItems(instance, list));
  return items.flatMap(([word = '']) => parseAddress(word.replace(/\/\d+$/, ''))?.text ?? []);
}

/**
 * How a configuration's instances reach each other: by unicast all masters, with this node's own address where that is named, and `advert_int` in
 * seconds. Each is that of the first instance which says so, see keepalived.conf(5).
 */
export function findWire(text: string): { masters: readonly string[]; advertSeconds: number | null } {
  const instances = listInstances(text);
  const peers = instances.map((one) => listItems(one, 'unicast_peer').map(([peer = '']) => peer));
  const listed = (peers.find(({ length }) => length > 0) ?? []).filter((peer) => isIP(peer) !== 0);
  const own = firstWord(instances, 'unicast_src_ip');
  const advert = firstWord(instances, 'advert_int');
  return {
    masters: listed.length === 0 || own === undefined ? listed : [own, ...listed],
    advertSeconds: advert !== undefined && /^\d{1,9}(?:\.\d{1,9})?$/.test(advert) ? Number(advert) : null,
  };
}

function firstWord(instances: readonly Statement[], keyword: string): string | undefined {
  return instances.map((one) => readLast(one, keyword)?.[1]).find((word) => word !== undefined);
}

/** Whether the keepalived with these addresses follows a file, by its configuration, or a file of the host's where it names none. Never rejects. */
export async function viewGuard(
  file: string,
  addresses: readonly string[],
  hostFile: string,
): Promise<GuardView> {
  try {
    // Of a keepalived in a container it may be unknown whose network it has.
    const here = (await listProcesses()).filter(({ isSurelyHere }) => isSurelyHere);
    const { others: processes } = await partKeepalived(here);
    if (!processes.some(({ name }) => name === keepalivedName)) return { isWatched: null };
    const { path, text } = await readConfiguration(processes, hostFile);
    const trackings = addresses.map((address) => findTracking(text ?? '', address, file));
    if (trackings.every((one) => one === null)) return { isWatched: null };
    if (trackings.includes('none')) return { isWatched: false, cause: `${path} does not name it` };
    if (trackings.includes('weight'))
      return { isWatched: false, cause: `${path} lets it change the priority only` };
    return await viewWatch(processes, file);
  } catch {
    return { isWatched: null };
  }
}

/**
 * Whether a running keepalived watches a file: it watches the folders of those that it tracks from when it starts or is
 * reloaded, and drops for good a file whose folder is not there then (keepalived 2.2.7: "Track file directory for serving
 * does not exist - removing"). Only reads. Rejects, as node:fs does, where a process may not be asked.
 */
export async function viewWatch(processes: readonly HostProcess[], file: string): Promise<GuardView> {
  // The second is what `process_names` calls the one that holds addresses.
  const running = processes.filter(
    ({ name, isSurelyHere }) => isSurelyHere && ['keepalived', 'keepalived_vrrp'].includes(name),
  );
  const views = await Promise.all(running.map(({ pid }) => viewProcess(pid, file)));
  const known = views.filter((one) => one !== null);
  return known.find(({ isWatched }) => isWatched) ?? known[0] ?? { isWatched: null };
}

/** Null for a process that ended meanwhile. */
async function viewProcess(pid: number, file: string): Promise<GuardView | null> {
  const watched = await listWatchedInodes(pid);
  if (watched === null) return null;
  const cause = await findObstacle(pid, file);
  if (cause !== null) return { isWatched: false, cause };
  const [inode = ''] = (await findInode(dirname(file)))?.split(' ') ?? [];
  if (watched.has(inode)) return { isWatched: true };
  return { isWatched: false, cause: await findDrop(pid, dirname(file)) };
}

/** Why a process cannot read a file that this one writes, as far as that is seen; null for no reason. */
export async function findObstacle(pid: number, file: string): Promise<string | null> {
  const folder = dirname(file);
  const [own, root] = await Promise.all([findInode(folder), ForeignRoot.of(pid)]);
  if ((await findInode(await root.locate(folder))) !== own)
    return 'its container has another folder there, or none';
  return (await mayRead(pid, [file, folder])) ? null : 'it may not read the file or its folder';
}

/** Its inode, as the kernel writes it, and its device; null where it is not there. */
async function findInode(folder: string): Promise<string | null> {
  const status = await stat(folder, { bigint: true }).catch(() => null);
  return status && `${status.ino.toString(16)} ${status.dev}`;
}

/** Whoever may read all files is not asked for the mode of one: CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH, see capabilities(7). */
async function mayRead(pid: number, paths: readonly string[]): Promise<boolean> {
  const text = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
  const read = (name: string) => new RegExp(`^${name}:\\s+(\\S+)\\s*(\\S*)`, 'm').exec(text) ?? [];
  const [, capabilities = 'f'] = read('CapEff');
  if ((Number.parseInt(capabilities.slice(-1), 16) & 0b110) !== 0) return true;
  const [uid, gid] = [Number(read('Uid')[2]), Number(read('Gid')[2])];
  const modes = await Promise.all(
    paths.map(async (path) => {
      const status = await stat(path).catch(() => null);
      if (status === null) return 0o7;
      return status.mode >> (status.uid === uid ? 6 : status.gid === gid ? 3 : 0);
    }),
  );
  return modes.every((mode) => (mode & 0o4) !== 0);
}

/** Why a process does not watch a folder that it could read. One that is older than the process was there when that started. */
async function findDrop(pid: number, folder: string): Promise<string> {
  const read = [stat(folder), readAge(pid), readFile('/proc/stat', 'utf8')] as const;
  const [{ birthtimeMs }, { startedMs }, text] = await Promise.all(read);
  // See proc_stat(5): when the machine started, in whole seconds since 1970.
  const machineMs = Number(/^btime (\d+)$/m.exec(text)?.[1]) * 1000;
  return birthtimeMs < machineMs + 1000 + startedMs
    ? 'this host was at fs.inotify.max_user_instances or max_user_watches when it started'
    : 'the folder did not exist when keepalived started, or was replaced since';
}

/** As the kernel writes them: `inotify wd:1 ino:98401b sdev:fe00000 mask:2c8 …`, see proc_pid_fdinfo(5). */
async function listWatchedInodes(pid: number): Promise<ReadonlySet<string> | null> {
  try {
    const folder = `/proc/${pid}/fdinfo`;
    const texts = (await readdir(folder)).map((name) =>
      // A file may be closed meanwhile.
      readFile(`${folder}/${name}`, 'utf8').catch(ignoreMissing),
    );
    const lines = (await Promise.all(texts)).join('\n').matchAll(/^inotify wd:\S+ ino:([0-9a-f]+) /gm);
    return new Set([...lines].map(([, inode = '']) => inode));
  } catch (error) {
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return null;
    throw error;
  }
}

/** An address of this host with its subnet; one that keepalived holds is among them. */
export type HostAddress = InterfaceAddress;

/** A host's addresses without those that keepalived holds: the rest shows the host's subnets. Pure. */
export function listSubnets(hostAddresses: readonly HostAddress[]): HostAddress[] {
  return hostAddresses.filter((one) => !isWhole(one) && isUsable(one));
}

/** The interfaces that have these addresses, sorted. Pure. */
export function listDevices(addresses: readonly HostAddress[]): string[] {
  return [...new Set(addresses.map(({ device }) => device))].sort();
}

/** Whether keepalived can have an instance on an interface. Pure. */
export function isUsable({ device }: Pick<HostAddress, 'device'>): boolean {
  return safeInterface.test(device) && device !== 'lo';
}

/** Whether keepalived may have put an address there: it does so with a whole prefix. */
export function isWhole({ family, prefixLength }: HostAddress): boolean {
  return prefixLength === familyToBits[family];
}

/**
 * An interface's name as configuration files take it. Linux allows any 15 bytes but blanks and slashes; whatever
 * means something to keepalived's parser is left out.
 */
export const safeInterface = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,14}$/;

const safeHostname = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,254}$/;

/** A host's name as the router_id of its keepalived, for that one's own log; `vipnat` for one that its parser could misread. Pure. */
export function toRouterId(hostname: string): string {
  return safeHostname.test(hostname) ? hostname : 'vipnat';
}

/** Whether keepalived's parser takes a path as one word: it knows blanks, quotes, `#` and `!`. */
export function isSafePath(path: string): boolean {
  return /^[\w./@+-]+$/.test(path);
}

/** A virtual_router_id is one byte, and 0 is reserved (RFC 9568, section 5.2.3). */
const largestVrid = 255;

/** All of them. */
export const allVrids: readonly number[] = Array.from({ length: largestVrid }, (_, index) => index + 1);

/** Those that `51-60` names, or `51`; none for anything else. */
export function parseVrids(text: string): readonly number[] {
  const [, first = '', last = first] = /^(\d{1,3})(?:-(\d{1,3}))?$/.exec(text) ?? [];
  return allVrids.filter((vrid) => first !== '' && vrid >= Number(first) && vrid <= Number(last));
}

/**
 * The virtual_router_id of a VIP: its last octet, for IPv6 its last byte, plus one. All nodes compute the same.
 * @throws VipnatError CONFIG_INVALID when that would be 256.
 */
export function computeVrid(address: Address): number {
  const vrid = findVrid(address);
  if (vrid !== null) return vrid;
  throw new VipnatError(
    'CONFIG_INVALID',
    `${address.text} has no virtual router id: its last byte plus one is ${largestVrid + 1}, and the largest is ${largestVrid}. ` +
      `Choose one with --vrid: a number from 1 to ${largestVrid} that is free on that network`,
  );
}

/** The same; null for an address that has none. */
export function findVrid({ text }: Address): number | null {
  const vrid = (ipaddr.parse(text).toByteArray().at(-1) ?? 0) + 1;
  return vrid <= largestVrid ? vrid : null;
}

/** One VRRP advertisement, of version 2 (RFC 3768) or 3 (RFC 9568). */
export interface VrrpAdvert extends Pick<InstanceView, 'vrid' | 'addresses'> {
  readonly family: Family;
  /** The sender's address, in canonical text. */
  readonly source: string;
  /** 0 when the sender gives up its addresses, 255 when they are its own. */
  readonly priority: number;
}

/** The adverts in what `tcpdump -x` printed, in their order. Packets that are none are left out. Pure and total. */
export function parseCapture(text: string): VrrpAdvert[] {
  const packets: string[] = [];
  for (const line of text.split('\n')) {
    // tcpdump 4.99.3: `	0x0010:  e000 0012 2133 6401 0101 …`; what is no such line begins a packet.
    const bytes = /^\s+0x[0-9a-f]{4}: {2}([0-9a-f ]+)$/.exec(line)?.[1];
    if (bytes === undefined) packets.push('');
    else packets.push(`${packets.pop() ?? ''}${bytes.replaceAll(' ', '')}`);
  }
  return packets.map((packet) => parsePacket(Buffer.from(packet, 'hex'))).filter((advert) => advert !== null);
}

const vrrpProtocol = 112;
const vrrpHeaderBytes = 8;

function parsePacket(packet: Buffer): VrrpAdvert | null {
  const layout = readIpHeader(packet);
  if (layout === null || layout.payload.length < vrrpHeaderBytes) return null;
  const { family, source, payload, addressBytes } = layout;
  const [head = 0, vrid = 0, priority = 0, count = 0] = payload;
  const isAdvert = head === 0x21 || head === 0x31;
  if (!isAdvert || payload.length < vrrpHeaderBytes + count * addressBytes) return null;
  const addresses = Array.from({ length: count }, (_, index) => {
    const start = vrrpHeaderBytes + index * addressBytes;
    return readAddressBytes(payload.subarray(start, start + addressBytes)) ?? '';
  });
  return { family, source, vrid, priority, addresses };
}

/** The payload is from the VRRP header on. */
function readIpHeader(packet: Buffer) {
  const version = (packet[0] ?? 0) >> 4;
  if (version === 4 && packet[9] === vrrpProtocol) {
    const payload = packet.subarray(((packet[0] ?? 0) & 0x0f) * 4);
    const source = readAddressBytes(packet.subarray(12, 16)) ?? '';
    return { family: 'ipv4', source, payload, addressBytes: 4 } as const;
  }
  if (version !== 6 || packet[6] !== vrrpProtocol) return null;
  const payload = packet.subarray(40);
  const source = readAddressBytes(packet.subarray(8, 24)) ?? '';
  return { family: 'ipv6', source, payload, addressBytes: 16 } as const;
}
