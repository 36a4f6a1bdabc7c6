import { readdir, readFile } from 'node:fs/promises';

/** keepalived on this host, as far as can be seen. */
export interface KeepalivedView {
  /** Whether a process of that name is seen: none is from a container that does not see the host's. */
  readonly isRunning: boolean;
  /** What its configuration says of a VIP's instance; null where there is no such instance or no file. */
  readonly instance: { readonly vrid: number; readonly priority: number | null } | null;
}

/** Where packages and most people put it. */
const configFile = '/etc/keepalived/keepalived.conf';

/** Looks for a running keepalived and for the instance of its configuration that has an address. Never rejects. */
export async function findKeepalived(address: string): Promise<KeepalivedView> {
  const text = await readFile(configFile, 'utf8').catch(() => '');
  return { isRunning: await isRunning(), instance: findInstance(text, address) };
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

async function isRunning(): Promise<boolean> {
  const pids = (await readdir('/proc').catch(() => [])).filter((name) => /^\d+$/.test(name));
  const names = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/comm`, 'utf8').catch(() => '')));
  return names.some((name) => name.trim() === 'keepalived');
}
