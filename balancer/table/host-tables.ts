/** The tables of this host's balancer as a command reads them. */
import { families } from '../../lib/address/address.ts';
import { withNetlinkClient } from '../../lib/kernel/netlink/netlink.ts';
import { readTableHandles } from '../../lib/kernel/netlink/nft-tables.ts';
import { listNftObject } from '../../lib/kernel/real/nft-table.ts';
import { nameTable, tableName } from '../../lib/services/balancer-table.ts';
import { type HostBalancer } from '../../lib/services/host-balancer.ts';
import { VipnatError } from '../../lib/text/errors.ts';
import { shared } from './skeleton.ts';

/** A set has three elements. */
const limitMs = 5000;

/** Those that are there, and for how long they count. Never rejects for what the host is like. */
export async function readHostTables(): Promise<Pick<HostBalancer, 'tables' | 'unread'>> {
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

/** A map with a port of each Service at most. */
const mapLimitMs = 2000;

/**
 * Whether tables send connections on to pods of other nodes. Of IPv4, as the filter is. Each node with a pod has the part that sends
 * on, and so gets packets that way. Rejects as listNftObject does.
 */
export async function isSendingOn(tables: HostBalancer['tables']): Promise<boolean> {
  if (!tables.some(({ family }) => family === 'ipv4')) return false;
  const text = await listNftObject(['map', ...nameTable('ipv4').split(' '), shared.relays], [], mapLimitMs);
  return text.includes('goto ');
}
