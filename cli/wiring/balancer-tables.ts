import { families } from '../../lib/address/address.ts';
import { balancerRole } from '../../balancer/process/presence.ts';
import { nameTable, tableName } from '../../balancer/table/table.ts';
import { findHolder } from '../../lib/http/presence.ts';
import { createBalancerKernel } from '../../lib/kernel/real/balancer-tables.ts';
import { isInPath } from '../../lib/kernel/tools/toolbox.ts';
import { VipnatError } from '../../lib/text/errors.ts';
import { type CleanupOptions } from '../grammar/command-context.ts';
import { type UnreadText } from '../../agent/observe/unread.ts';

/**
 * Removes the balancer's tables, or only looks for them; none for a cleanup of virtual IPs of the API, and none while a balancer
 * runs, which would write them again. Answers which, and why the others are still there.
 */
export async function removeBalancerTables({
  dryRun,
  isNarrowed,
}: Omit<CleanupOptions, 'json'>): Promise<{ tables: readonly string[]; problems: readonly UnreadText[] }> {
  if (isNarrowed || !isInPath('nft')) return { tables: [], problems: [] };
  const holder = dryRun ? null : await findHolder(balancerRole);
  if (holder !== null) {
    const text = `a balancer (pid ${holder.pid}) is running here, so its tables stay: stop it first`;
    return { tables: [], problems: [{ code: balancerRole.code, text }] };
  }
  const kernel = createBalancerKernel();
  try {
    const handles = await kernel.readHandles(tableName);
    const tables = families.filter((family) => handles[family] !== null).map(nameTable);
    const script = tables.map((table) => `delete table ${table}\n`).join('');
    if (!dryRun && script !== '') await kernel.apply(script);
    return { tables, problems: [] };
  } catch (error) {
    if (!(error instanceof VipnatError)) throw error;
    return { tables: [], problems: [{ code: error.code, text: error.message }] };
  }
}
