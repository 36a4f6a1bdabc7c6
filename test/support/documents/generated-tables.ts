import { topics } from '../../../cli/doctor/checks/diagnose.ts';
import { describeError, errorCodes } from '../../../lib/text/errors.ts';
import { fillSection } from './sections.ts';

/** A table of a document that is written from one of the program's catalogues. */
interface GeneratedTable {
  /** The section of the document that it fills, see fillSection. */
  readonly name: string;
  readonly heads: readonly string[];
  /** Cells in Markdown. */
  readonly rows: readonly (readonly string[])[];
}

/** Each document to its tables. `scripts/tables` writes them; a test compares. */
export const pathToTables: ReadonlyMap<string, readonly GeneratedTable[]> = new Map([
  ['docs/doctor.md', [listFindings()]],
  ['docs/errors.md', [listErrors()]],
]);

/**
 * A document's text with its tables as they have to be.
 * @throws Error when the text has no section for one.
 */
export function fillTables(text: string, tables: readonly GeneratedTable[]): string {
  return tables.reduce((filled, table) => fillSection(filled, table.name, formatTable(table)), text);
}

/** As prettier lays it out. */
function formatTable({ heads, rows }: GeneratedTable): string {
  const widths = heads.map((_, column) =>
    Math.max(...[heads, ...rows].map((row) => row[column]?.length ?? 0)),
  );
  const format = (row: readonly string[]) =>
    `| ${row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(' | ')} |\n`;
  return [heads, widths.map((width) => '-'.repeat(width)), ...rows].map(format).join('');
}

function listFindings(): GeneratedTable {
  const checks = topics.flatMap((topic) => topic.checks);
  return {
    name: 'findings',
    heads: ['Code', 'Level', 'Meaning'],
    rows: checks.map(({ code, levels, meaning }) => [`\`${code}\``, levels.join(', '), meaning]),
  };
}

function listErrors(): GeneratedTable {
  return {
    name: 'errors',
    heads: ['Code', 'Meaning', 'What to do', 'Exit status', 'Retry'],
    rows: errorCodes.map((code) => {
      const { meaning, remedy, exit, retry } = describeError(code);
      return [`\`${code}\``, meaning, remedy, String(exit), retry ? 'yes' : 'no'];
    }),
  };
}
