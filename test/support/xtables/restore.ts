import type { Family } from '../../../lib/net.ts';
import type { IptablesDialect } from '../../../lib/kernel/port.ts';
import { Refusal, runCommand } from './commands.ts';
import { type FakeTables, type FakeTable, isTableName, createTable, copyTable, targetOf } from './tables.ts';
import type { TableName } from '../../../lib/iptables/rules.ts';

/** One run of `ip[6]tables-{nft,legacy}-restore --noflush`. */
interface RestoreRun {
  readonly family: Family;
  readonly dialect: IptablesDialect;
  readonly script: string;
}

/** How a run ended. What was committed before a failure stays. */
interface RestoreOutcome {
  /** How many tables were committed with a change in them. */
  readonly changedTables: number;
  /** Null for success. */
  readonly refusal: Refusal | null;
}

/** Carries a script out on the tables: each table's part takes effect at its COMMIT, whole or not at all. */
export function runRestore(tables: FakeTables, run: RestoreRun): RestoreOutcome {
  const progress: Progress = { tables, run, draft: null, changedTables: 0 };
  const lines = run.script.split('\n');
  for (const [index, line] of lines.entries()) {
    try {
      runLine(progress, line);
    } catch (error) {
      return { changedTables: progress.changedTables, refusal: withLine(error, index + 1) };
    }
  }
  const isOpen = progress.draft !== null;
  const refusal = isOpen ? new Refusal(1, `COMMIT expected at line ${lines.length}`) : null;
  return { changedTables: progress.changedTables, refusal };
}

interface Progress {
  readonly tables: FakeTables;
  readonly run: RestoreRun;
  /** The table between `*table` and COMMIT. */
  draft: Draft | null;
  changedTables: number;
}

interface Draft {
  readonly name: TableName;
  readonly table: FakeTable;
  isChanged: boolean;
}

function runLine(progress: Progress, line: string): void {
  const { tables, run, draft } = progress;
  if (line.trim() === '' || line.startsWith('#')) return;
  if (draft === null) {
    progress.draft = openTable(tables, line, run.dialect);
  } else if (line === 'COMMIT') {
    progress.changedTables += commit(tables, draft, run.dialect) ? 1 : 0;
    progress.draft = null;
  } else {
    const target = { family: run.family, dialect: run.dialect, tableName: draft.name, table: draft.table };
    if (runCommand(target, line)) draft.isChanged = true;
  }
}

function openTable(tables: FakeTables, line: string, dialect: IptablesDialect): Draft {
  if (!line.startsWith('*')) throw new Refusal(1, 'failed');
  const name = line.slice(1).trim();
  if (!isTableName(name)) throw new Refusal(2, `table name '${name}' invalid`);
  const table = tables.get(name);
  // Asking for a legacy table creates it, whatever comes of the script.
  if (table === undefined && dialect === 'legacy') tables.set(name, createTable(name));
  return { name, table: table === undefined ? createTable(name) : copyTable(table), isChanged: false };
}

function commit(tables: FakeTables, { name, table, isChanged }: Draft, dialect: IptablesDialect): boolean {
  if (hasLoop(table)) throw new Refusal(dialect === 'nft' ? 4 : 1, 'RULE_APPEND failed (Too many links)');
  if (isChanged) tables.set(name, table);
  return isChanged;
}

/** Whether a packet could go round: only from the kernel's own chains on, as the kernel looks. */
function hasLoop(table: FakeTable): boolean {
  const leadsToItself = (chain: string, above: readonly string[]): boolean =>
    above.includes(chain) ||
    (table.get(chain)?.rules ?? []).some((rule) => {
      const next = targetOf(rule);
      return next !== undefined && table.has(next) && leadsToItself(next, [...above, chain]);
    });
  return [...table].some(([name, { policy }]) => policy !== null && leadsToItself(name, []));
}

function withLine(error: unknown, line: number): Refusal {
  if (!(error instanceof Refusal)) throw error;
  return new Refusal(error.exitCode, `line ${line} failed: ${error.message}`);
}
