import { attempt, type Attempt } from './attempt.ts';
import { saveIptables, type SaveSource } from './iptables.ts';
import { iptablesTables, type SaveOutput } from '../port.ts';
import { settleAll } from '../tools/settle.ts';
import { type Toolbox } from '../tools/toolbox.ts';

/**
 * What one dialect has for one family, by one run of its save tool. A tool that fails is run once more for each table
 * that vipnat reads: most likely it met a rule that it lacks a match for, and then nobody can tell the tables after that
 * one from the tool's end. Null where there is nothing to read.
 */
export async function readIptables(
  toolbox: Toolbox,
  { family, dialect, limitMs }: Omit<SaveSource, 'table'>,
): Promise<Attempt<SaveOutput | null>> {
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
  return { found: { family, dialect, text: parts.map(({ found }) => found?.text ?? '').join('') }, unread };
}
