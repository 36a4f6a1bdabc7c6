/** What Services have on this host: the balancer, its tables, and the folder of its keepalived. By this host alone. */
import { access } from 'node:fs/promises';
import { askBalancerActivity, type BalancerActivity } from '../../balancer/process/activity.ts';
import { balancerRole } from '../../balancer/process/presence.ts';
import { locateSeatFiles, usualRunFolder } from '../../balancer/seats/seat-files.ts';
import { shared } from '../../balancer/table/skeleton.ts';
import { nameTable, tableName } from '../../balancer/table/table.ts';
import { families, type Family } from '../../lib/address/address.ts';
import { findHolder, type HolderInfo } from '../../lib/http/presence.ts';
import { withNetlinkClient } from '../../lib/kernel/netlink/netlink.ts';
import { readTableHandles } from '../../lib/kernel/netlink/nft-tables.ts';
import { listNftObject } from '../../lib/kernel/real/nft-table.ts';
import { VipnatError } from '../../lib/text/errors.ts';

/** One of the balancer's tables. */
export interface BalancerTable {
  readonly family: Family;
  /** For how many more seconds its rules count unless a balancer renews them; null where they do not count. */
  readonly aliveSeconds: number | null;
}

/** What is there of Services on this host. */
export interface HostBalancer {
  /** Null where none runs. */
  readonly balancer: HolderInfo | null;
  /** Null where none runs, and while it does not say it: it has just begun, or is of an older version. */
  readonly activity: BalancerActivity | null;
  readonly tables: readonly BalancerTable[];
  /** Why the tables could not be read; null where they were. */
  readonly unread: VipnatError | null;
  /** The folder that balancer and keepalived share, as far as it is known here. */
  readonly runDir: string;
  /** Whether keepalived's configuration is in it. */
  readonly hasConfiguration: boolean;
}

/** Reads it. Never rejects for what the host is like. */
export async function readHostBalancer(): Promise<HostBalancer> {
  const [balancer, activity, tables] = await Promise.all([
    findHolder(balancerRole),
    askBalancerActivity(),
    readTables(),
  ]);
  const runDir = activity?.runDir ?? usualRunFolder;
  return { balancer, activity, ...tables, runDir, hasConfiguration: await isThere(runDir) };
}

/** Whether Services have anything on this host. Pure. */
export function isUsed({ balancer, tables, hasConfiguration }: HostBalancer): boolean {
  return balancer !== null || tables.length > 0 || hasConfiguration;
}

/** A set has three elements. */
const limitMs = 5000;

async function readTables(): Promise<Pick<HostBalancer, 'tables' | 'unread'>> {
  try {
    const handles = await withNetlinkClient('netfilter', (client) => readTableHandles(client, tableName));
    const there = families.filter((family) => handles[family] !== null);
    const tables = there.map(async (family) => {
      const words = ['set', ...nameTable(family).split(' '), shared.alive];
      const text = await listNftObject(words, [], limitMs);
      return { family, aliveSeconds: readAliveSeconds(text) };
    });
    return { tables: await Promise.all(tables), unread: null };
  } catch (error) {
    if (!(error instanceof VipnatError)) throw error;
    return { tables: [], unread: error };
  }
}

/** What `nft -n list set` prints of the set, to the seconds that its first element to go has left: `expires 21s512ms`. Pure. */
export function readAliveSeconds(text: string): number | null {
  const all = [...text.matchAll(/\bexpires (?:(\d+)s)?(?:(\d+)ms)?/g)];
  const seconds = all.map(([, whole = '0', rest = '0']) => Number(whole) + Number(rest) / 1000);
  return seconds.length === 0 ? null : Math.min(...seconds);
}

async function isThere(runDir: string): Promise<boolean> {
  return await access(locateSeatFiles(runDir).file).then(
    () => true,
    () => false,
  );
}
