import { isIP } from 'node:net';
import { hostname } from 'node:os';
import { parseAddress } from '../address/address.ts';
import { type HostProcess, listProcesses } from '../kernel/host/processes.ts';
import { expandConfiguration } from './expand.ts';
import { ForeignRoot } from './foreign-root.ts';
import { parseStatements, type Statement } from './grammar.ts';
import { readWhole } from './included.ts';

/** keepalived on this host, as far as can be seen. */
export interface KeepalivedView {
  /** Whether a process of that name is seen: none is from a container that does not see the host's. */
  readonly isRunning: boolean;
  /** What its configuration says of a VIP's instance; null where there is no such instance or no file. */
  readonly instance: { readonly vrid: number; readonly priority: number | null } | null;
}

/** What its processes are called. */
export const keepalivedName = 'keepalived';

/** Where it looks for its configuration unless it is told otherwise, see keepalived(8). */
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

/** How the configuration of the keepalived begins that holds Services' addresses: a host can have it beside that of the API's virtual IP. */
export const seatsMark = '# keepalived.conf by vipnat balancer';

/** Which processes are of a keepalived that holds Services' addresses, and which are not. */
export interface KeepalivedParts {
  readonly seats: readonly HostProcess[];
  /** All others, be they keepalived or not. */
  readonly others: readonly HostProcess[];
}

/** Tells them apart by the files that they were started with. One whose file cannot be read is none of the balancer's. Never rejects. */
export async function partKeepalived(processes: readonly HostProcess[]): Promise<KeepalivedParts> {
  const areSeats = await Promise.all(processes.map(isOfSeats));
  return {
    seats: processes.filter((_, at) => areSeats[at]),
    others: processes.filter((_, at) => !areSeats[at]),
  };
}

async function isOfSeats({ name, pid, arguments: words }: HostProcess): Promise<boolean> {
  const path = name === keepalivedName ? findNamedFile(words) : null;
  if (path === null) return false;
  try {
    const text = await (await ForeignRoot.of(pid)).read(path);
    return text?.startsWith(seatsMark) ?? false;
  } catch {
    return false;
  }
}

/**
 * Looks for a running keepalived, but for one that holds Services' addresses, and for the instance of its configuration that has an
 * address; a file of the host's is read where no running one tells of its own. Never rejects.
 */
export async function findKeepalived(address: string, hostFile: string): Promise<KeepalivedView> {
  const { others: processes } = await partKeepalived(await listProcesses().catch(() => []));
  const { text } = await readConfiguration(processes, hostFile).catch(() => ({ text: null }));
  return {
    isRunning: processes.some(({ name }) => name === keepalivedName),
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
  const id = findConfigurationId(words) ?? hostname().replace(/\..*/, '');
  const read = async (root: ForeignRoot, path: string): Promise<KeepalivedConfiguration> => {
    const whole = await readWhole(root, path, id);
    if (whole === null) return { path, text: null, files: [] };
    return { path, text: expandConfiguration(whole.text, id), files: whole.files };
  };
  if (running !== undefined) {
    const named = findNamedFile(words);
    const own = await read(await ForeignRoot.of(running.pid), named ?? keepalivedFile);
    if (named !== null || own.text !== null) return own;
  }
  const host = await read(ForeignRoot.own, hostFile);
  return host.text === null ? await read(ForeignRoot.own, keepalivedFile) : host;
}

/** The file of `-f FILE` or `--use-file=FILE` (keepalived(8)); null where none is named by its whole path. */
export function findNamedFile(words: readonly string[]): string | null {
  const file = findValue(words, '-f', '--use-file');
  return file?.startsWith('/') === true ? file : null;
}

/** The name of `-i ID` or `--config-id=ID`, for which some lines are; null where none is given. */
function findConfigurationId(words: readonly string[]): string | null {
  return findValue(words, '-i', '--config-id');
}

function findValue(words: readonly string[], short: string, long: string): string | null {
  const index = words.findIndex((word) => word === short || word === long);
  const text = words.find((word) => word.startsWith(`${long}=`))?.slice(long.length + 1);
  return text ?? (index < 0 ? null : (words[index + 1] ?? null));
}

/** The vrrp_instance whose addresses hold this one, see keepalived.conf(5). Null when there is none. */
export function findInstance(text: string, address: string): KeepalivedView['instance'] {
  const instance = listInstances(text).find((one) => holdsAddress(one, address));
  const vrid = readNumber(instance, 'virtual_router_id');
  return vrid === null ? null : { vrid, priority: readNumber(instance, 'priority') };
}

/**
 * Whether the instance with this address follows a file: its track_file names one that is declared with that path. Null
 * when there is no such instance.
 */
export function followsFile(text: string, address: string, path: string): boolean | null {
  const statements = parseStatements(text);
  const instance = listBlocks(statements, 'vrrp_instance').find((one) => holdsAddress(one, address));
  if (instance === undefined) return null;
  const isPath = (one: Statement) => readLast(one, 'file')?.[1] === path;
  const declared = ['track_file', 'vrrp_track_file'].flatMap((keyword) => listBlocks(statements, keyword));
  const names = declared.filter(isPath).map(({ words }) => words[1]);
  return listItems(instance, 'track_file').some(([name]) => names.includes(name));
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
    const addresses = listBareAddresses(instance).flatMap((bare) => parseAddress(bare)?.text ?? []);
    const device = readLast(instance, 'interface')?.[1] ?? '';
    return vrid === null ? [] : [{ name: instance.words[1] ?? '', device, vrid, addresses }];
  });
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
  return listInstances(text)
    .flatMap(listBareAddresses)
    .flatMap((bare) => parseAddress(bare)?.text ?? []);
}

/** With or without a prefix length, and however it is spelled. */
function holdsAddress(instance: Statement, address: string): boolean {
  return listBareAddresses(instance).some((bare) => bare === address || parseAddress(bare)?.text === address);
}

/** As they are spelled, without prefix lengths. */
function listBareAddresses(instance: Statement): string[] {
  const items = ['virtual_ipaddress', 'virtual_ipaddress_excluded'].flatMap((list) =>
    listItems(instance, list),
  );
  return items.map(([word = '']) => word.replace(/\/\d+$/, ''));
}

/** How a configuration's instances reach each other: what `vipnat keepalived` is to be told so that it stays so. */
export interface KeepalivedWire {
  /** The peers of unicast and, where it is named, this node's own address; empty for multicast. */
  readonly masters: readonly string[];
  /** `advert_int`, in seconds; null where none is named. */
  readonly advertSeconds: number | null;
}

/** That of the first instance which says so, see keepalived.conf(5). */
export function findWire(text: string): KeepalivedWire {
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
