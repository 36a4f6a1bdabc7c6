import { createDrainStore } from '../../lib/files/drain-store.ts';
import { createDrainRule, drainTable } from '../../lib/kernel/real/drain-rule.ts';
import { isInPath } from '../../lib/kernel/tools/toolbox.ts';
import { VipnatError } from '../../lib/text/errors.ts';
import { type UnreadText } from '../../lib/kernel/real/unread.ts';

/** What became of what `vipnat drain` has left on this host. */
export interface DrainRemoval {
  /** The tables that are gone, or would be, with their families; one at most. */
  readonly tables: readonly string[];
  /** The files that are gone, or would be; one at most. */
  readonly files: readonly string[];
  /** Why the rest is still there. */
  readonly problems: readonly UnreadText[];
}

/** What decides whether a drain ends. */
export interface DrainCircumstances {
  readonly stateDir: string;
  readonly dryRun: boolean;
  /** Whether it is about some virtual IPs only: a drain is of all. */
  readonly isNarrowed: boolean;
  readonly hasAgent: boolean;
}

/** Ends the drain of this host, or only looks for it; leaves it to an agent that runs, which would keep it. */
export async function removeDrain(circumstances: DrainCircumstances): Promise<DrainRemoval> {
  const { stateDir, dryRun, isNarrowed, hasAgent } = circumstances;
  if (isNarrowed || (hasAgent && !dryRun)) return { tables: [], files: [], problems: [] };
  const store = createDrainStore(stateDir);
  // The file first: a table without it is nobody's wish.
  const files = await attempt(store.location, async () => {
    if ((await store.load()) === null) return false;
    if (!dryRun) await store.save(null);
    return true;
  });
  const tables = await attempt(drainTable, async () => {
    // Without nft nobody has written it.
    if (!isInPath('nft')) return false;
    const rule = createDrainRule();
    if ((await rule.read())?.length === 0) return false;
    if (!dryRun) await rule.write([]);
    return true;
  });
  return { tables: tables.gone, files: files.gone, problems: [...files.problems, ...tables.problems] };
}

async function attempt(
  name: string,
  remove: () => Promise<boolean>,
): Promise<{ gone: readonly string[]; problems: readonly UnreadText[] }> {
  try {
    return { gone: (await remove()) ? [name] : [], problems: [] };
  } catch (error) {
    if (!(error instanceof VipnatError)) throw error;
    return { gone: [], problems: [{ code: error.code, text: error.message }] };
  }
}
