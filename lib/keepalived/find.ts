import { isIP } from 'node:net';
import { type HostProcess, listProcesses } from '../kernel/processes.ts';
import { readIfThere } from '../optional-file.ts';

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
  /** Null when there is no such file. */
  readonly text: string | null;
}

/**
 * Looks for a running keepalived and for the instance of its configuration that has an address; a file of the host's is
 * read where no running one tells of its own. Never rejects.
 */
export async function findKeepalived(address: string, hostFile: string): Promise<KeepalivedView> {
  const processes = await listProcesses().catch(() => []);
  const { text } = await readConfiguration(processes, hostFile).catch(() => ({ text: null }));
  return {
    isRunning: processes.some(({ name }) => name === keepalivedName),
    instance: findInstance(text ?? '', address),
  };
}

/**
 * Reads what a running keepalived reads, in the files that it sees itself; where none runs, or none tells, a file of the
 * host's, else the usual one. Rejects, as readFile does, for a file that is there and may not be read.
 */
export async function readConfiguration(
  processes: readonly HostProcess[],
  hostFile: string,
): Promise<KeepalivedConfiguration> {
  const running = processes.find(({ name }) => name === keepalivedName);
  const named = running === undefined ? null : findNamedFile(running.arguments);
  if (running !== undefined && named !== null) {
    return { path: named, text: await readIfThere(`/proc/${running.pid}/root${named}`) };
  }
  const text = await readIfThere(hostFile);
  return text === null
    ? { path: keepalivedFile, text: await readIfThere(keepalivedFile) }
    : { path: hostFile, text };
}

/** The file of `-f FILE` or `--use-file=FILE` (keepalived(8)); null where none is named by its whole path. */
export function findNamedFile(words: readonly string[]): string | null {
  const index = words.findIndex((word) => word === '-f' || word === '--use-file');
  const text = words.find((word) => word.startsWith('--use-file='))?.replace('--use-file=', '');
  const file = text ?? (index < 0 ? undefined : words[index + 1]);
  return file?.startsWith('/') === true ? file : null;
}

/** The vrrp_instance whose addresses hold this one, see keepalived.conf(5). Null when there is none. */
export function findInstance(text: string, address: string): KeepalivedView['instance'] {
  const bare = text.replaceAll(/[#!].*$/gm, '');
  const blocks = bare.split(/\bvrrp_instance\s+/).slice(1);
  const block = blocks.find((one) => listWords(one).includes(address));
  const vrid = Number(/\bvirtual_router_id\s+(\d+)/.exec(block ?? '')?.[1] ?? NaN);
  if (block === undefined || Number.isNaN(vrid)) return null;
  const priority = /\bpriority\s+(\d+)/.exec(block)?.[1];
  return { vrid, priority: priority === undefined ? null : Number(priority) };
}

/** Words of a block, addresses without their prefix lengths. */
function listWords(block: string): string[] {
  return block.split(/\s+/).map((word) => word.replace(/\/\d+$/, ''));
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
  const bare = text.replaceAll(/[#!].*$/gm, '');
  const peers = /\bunicast_peer\s*\{([^{}]*)\}/.exec(bare)?.[1] ?? '';
  const own = /\bunicast_src_ip\s+(\S+)/.exec(bare)?.[1];
  const advert = /\badvert_int\s+(\d+(?:\.\d+)?)\s/.exec(bare)?.[1];
  const listed = peers.split(/\s+/).filter((word) => isIP(word) !== 0);
  return {
    masters: listed.length === 0 || own === undefined ? listed : [own, ...listed],
    advertSeconds: advert === undefined ? null : Number(advert),
  };
}
