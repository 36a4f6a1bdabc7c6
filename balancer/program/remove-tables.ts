import { families } from '../../lib/address/address.ts';
import { acceptChains, planAccept } from '../decide/accept-forwarded.ts';
import { familyToNft } from '../../lib/kernel/netlink/nft-chains.ts';
import { type BalancerKernel, createBalancerKernel } from '../../lib/kernel/real/balancer-tables.ts';
import { iptablesDialects, type SaveOutput } from '../../lib/kernel/port.ts';
import { trialTable } from '../../lib/kernel/real/nft-features.ts';
import { isInPath } from '../../lib/kernel/tools/toolbox.ts';
import { toolName } from '../../lib/kernel/tools/tool-name.ts';
import { parseSave } from '../../lib/netfilter/iptables/parse.ts';
import { VipnatError } from '../../lib/text/errors.ts';
import { tableName } from '../../lib/services/balancer-table.ts';
import { type UnreadText } from '../../lib/kernel/real/unread.ts';
import { balancerRole, findHolder } from '../../lib/http/singleton.ts';

/** What became of what the balancer has written. */
export interface BalancerRemoval {
  /** The tables that are gone, or would be, with their families: `ip vipnat-lb`. Those of a balancer that was killed at its start are among them. */
  readonly tables: readonly string[];
  /** The tools whose chain for what is forwarded is gone, or would be: `iptables-nft`. */
  readonly chains: readonly string[];
  /** Why the rest is still there. */
  readonly problems: readonly UnreadText[];
}

/** Removes what the balancer has written, or only looks for it; nothing while a balancer runs, which would write it again. */
export async function removeBalancerTables(dryRun: boolean): Promise<BalancerRemoval> {
  if (!isInPath('nft')) return { tables: [], chains: [], problems: [] };
  const holder = dryRun ? null : await findHolder(balancerRole);
  if (holder !== null) {
    const text = `a balancer (pid ${holder.pid}) is running here, so its tables stay: stop it first`;
    return { tables: [], chains: [], problems: [{ code: balancerRole.code, text }] };
  }
  const kernel = createBalancerKernel();
  const tables = await attempt(() => removeTables(kernel, dryRun));
  const places = families.flatMap((family) => iptablesDialects.map((dialect) => ({ family, dialect })));
  const chains = await Promise.all(places.map((place) => attempt(() => removeChains(kernel, place, dryRun))));
  return {
    tables: tables.gone,
    chains: chains.flatMap(({ gone }) => gone),
    problems: [tables, ...chains].flatMap(({ problems }) => problems),
  };
}

/** A balancer before wrote it: senders of VRRP adverts. */
const formerTable = 'vipnat-vrrp';

/** Removes all tables that a balancer writes, or wrote, or only looks for them. Answers them with their families. Rejects as the kernel does. */
export async function removeTables(
  kernel: Pick<BalancerKernel, 'readHandles' | 'apply'>,
  dryRun: boolean,
): Promise<string[]> {
  const tables: string[] = [];
  for (const name of [tableName, formerTable, trialTable]) {
    const handles = await kernel.readHandles(name);
    tables.push(
      ...families
        .filter((family) => handles[family] !== null)
        .map((family) => `${familyToNft[family]} ${name}`),
    );
  }
  const script = tables.map((table) => `delete table ${table}\n`).join('');
  if (!dryRun && script !== '') await kernel.apply(script);
  return tables;
}

async function removeChains(
  kernel: BalancerKernel,
  { family, dialect }: Pick<SaveOutput, 'family' | 'dialect'>,
  dryRun: boolean,
): Promise<string[]> {
  const output = await kernel.readFilter(family, dialect, acceptChains);
  const input = output === null ? '' : planAccept(parseSave(output), []);
  if (input === '') return [];
  if (!dryRun) await kernel.restore({ family, dialect, input });
  return [toolName(family, dialect)];
}

async function attempt(
  remove: () => Promise<string[]>,
): Promise<{ gone: readonly string[]; problems: readonly UnreadText[] }> {
  try {
    return { gone: await remove(), problems: [] };
  } catch (error) {
    if (!(error instanceof VipnatError)) throw error;
    return { gone: [], problems: [{ code: error.code, text: error.message }] };
  }
}
