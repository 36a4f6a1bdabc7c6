import { fillSection } from './sections.ts';
import { topics } from '../../../cli/doctor/examine.ts';
import { listChecks } from '../../../devices/conformance/steady-checks.ts';
import { errorCodes, describeError } from '../../../lib/errors.ts';
import { definitions } from '../../../lib/api/crds.ts';
import { listTried, suiteNames, suites } from '../suites/suites.ts';

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
  ['docs/drivers.md', [listConformance()]],
  ['docs/errors.md', [listErrors()]],
  ['docs/services-reference.md', ['AddressPool', 'VirtualIP', 'LoadBalancerDevice'].map(listFields)],
  ['docs/testing.md', [listSuites()]],
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
  const checks = Object.values(topics).flatMap((one) => Object.entries(one));
  return {
    name: 'findings',
    heads: ['Code', 'Level', 'Meaning'],
    rows: checks.map(([code, { levels, meaning }]) => [`\`${code}\``, levels.join(', '), meaning]),
  };
}

function listConformance(): GeneratedTable {
  return {
    name: 'checks',
    heads: ['Check', 'Tries', 'Needs'],
    rows: listChecks().map(({ name, title, needs }) => [
      `\`${name}\``,
      title,
      needs.map((need) => `\`${need}\``).join(', '),
    ]),
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

function listSuites(): GeneratedTable {
  return {
    name: 'suites',
    heads: ['Written by', ...suiteNames.map((reader) => `read in Debian ${reader}`)],
    rows: suiteNames.map((writer) => [
      `Debian ${writer}: ${suites[writer]}`,
      ...suiteNames.map((reader) => listTried(writer, reader).join(', ')),
    ]),
  };
}

/** As much of a CustomResourceDefinition as its table shows. */
interface Definition {
  readonly spec: {
    readonly names: { readonly kind: string };
    readonly versions: readonly [{ readonly schema: { readonly openAPIV3Schema: Field } }];
  };
}

interface Field {
  readonly type: string;
  readonly description?: string;
  readonly default?: string | number | boolean;
  readonly properties?: Readonly<Record<string, Field>>;
  readonly items?: Field;
  readonly minimum?: number;
  readonly maximum?: number;
}

/** The fields of spec and status, one level deep: what is deeper is in the meaning, or is Kubernetes' own. */
function listFields(kind: string): GeneratedTable {
  const found = (definitions as readonly Definition[]).find(({ spec }) => spec.names.kind === kind);
  const { spec, status } = found?.spec.versions[0].schema.openAPIV3Schema.properties ?? {};
  const rows = Object.entries({ spec, status }).flatMap(([part, field]) =>
    Object.entries(field?.properties ?? {}).map(([name, each]) => [
      `\`${part}.${name}\``,
      describeType(each),
      each.default === undefined ? '' : `\`${String(each.default)}\``,
      each.description ?? '',
    ]),
  );
  return { name: kind, heads: ['Field', 'Type', 'Default', 'Meaning'], rows };
}

function describeType({ type, items, minimum, maximum }: Field): string {
  if (type === 'array') return `list of ${items?.type ?? ''}s`;
  return minimum === undefined
    ? type
    : `${type}, from ${minimum}${maximum === undefined ? '' : ` to ${maximum}`}`;
}
