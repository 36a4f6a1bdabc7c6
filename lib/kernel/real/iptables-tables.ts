import { attempt, type Attempt } from './attempt.ts';
import { saveIptables, type SaveSource } from './iptables.ts';
import { iptablesTables, type SaveOutput } from '../port.ts';
import { settleAll } from '../tools/settle.ts';
import { type Toolbox } from '../tools/toolbox.ts';
import { VipnatError } from '../../text/errors.ts';

/** Reads what is wanted in a quicker way than the save tool; null where it cannot. */
export type QuickReading = () => Promise<SaveOutput | null>;

/**
 * What one dialect has for one family, by the quick way if there is one, or by one run of its save tool. A tool that fails is run
 * once more for each table that vipnat reads: most likely it met a rule that it lacks a match for, and then nobody can tell the
 * tables after that one from the tool's end. Null where there is nothing to read.
 */
export async function readIptables(
  toolbox: Toolbox,
  { family, dialect, limitMs }: Omit<SaveSource, 'table'>,
  readQuickly?: QuickReading,
): Promise<Attempt<SaveOutput | null>> {
  const quick = await attempt(tryQuickly(readQuickly), { family, dialect, tables: iptablesTables });
  if (quick.found !== null || quick.unread.length > 0) return quick;
  const source = { family, dialect, limitMs };
  const whole = await attempt(saveIptables(toolbox, source), { family, dialect, tables: iptablesTables });
  if (whole.unread[0]?.code !== 'TOOL_FAILED') return whole;
  const parts = await settleAll(
    iptablesTables.map((table) =>
      attempt(saveIptables(toolbox, { ...source, table }), { family, dialect, tables: [table] }),
    ),
  );
  const unread = parts.flatMap((part) => part.unread);
  if (unread.length === parts.length) return whole;
  return { found: { family, dialect, text: parts.map((part) => part.found?.text ?? '').join('') }, unread };
}

/**
 * What the quick way reads. Null where there is none, or it cannot: that is left to the save tool, which has more to say. Rejects with
 * TOOL_TIMED_OUT: the save tool would take as long again.
 */
export async function tryQuickly(read: QuickReading | undefined): Promise<SaveOutput | null> {
  try {
    return (await read?.()) ?? null;
  } catch (error) {
    if (error instanceof VipnatError && error.code !== 'TOOL_TIMED_OUT') return null;
    throw error;
  }
}
