import { readFile } from 'node:fs/promises';

/** /proc/net/ip_vs, or null where the kernel has no IPVS (ip_vs is not loaded). */
export async function readIpvs(): Promise<string | null> {
  try {
    return await readFile('/proc/net/ip_vs', 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

/** The same without the connection counts, which move with every connection and say nothing about the set-up. */
export function withoutConnectionCounts(ipvs: string): string {
  return ipvs.replaceAll(/^( {2}-> \S+ +\S+ +\d+).*$/gm, '$1');
}
