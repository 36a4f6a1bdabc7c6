import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import { fillSection } from './sections.ts';
import { type Entry, topicToList } from '../../../cli/commands/help.ts';
import { helpTopics, loadCommands } from '../../../cli/command.ts';
import { table as commands } from '../../../cli/table.ts';
import { listChecks } from '../../../devices/conformance/steady-checks.ts';
import { definitions } from '../../../lib/api/crds.ts';
import { listTried, suiteNames, suites } from '../suites/suites.ts';

/** A part of a document that is written from one of the program's catalogues. */
interface GeneratedSection {
  /** The section of the document that it fills, see fillSection. */
  readonly name: string;
  /** In Markdown. */
  readonly text: string;
}

/** A table, with cells in Markdown. */
interface GeneratedTable extends Pick<GeneratedSection, 'name'> {
  readonly heads: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

/** The tables of fields of objects, by their kinds. */
export const fieldTables = ['AddressPool', 'VirtualIP', 'LoadBalancerDevice'].map(listFields);

/** Each document to its parts. `scripts/tables` writes them; a test compares. */
export const pathToSections: ReadonlyMap<string, readonly GeneratedSection[]> = new Map([
  ['docs/drivers.md', [formatTable(listConformance())]],
  ['docs/reference.md', await listReference()],
  ['docs/services-reference.md', fieldTables.map(formatTable)],
  ['docs/testing.md', [formatTable(listSuites())]],
]);

/**
 * A document's text with its parts as they have to be.
 * @throws Error when the text has no section for one.
 */
export function fillSections(text: string, sections: readonly GeneratedSection[]): string {
  return sections.reduce((filled, section) => fillSection(filled, section.name, section.text), text);
}

/** What `vipnat help` lists, the commands, and the alerts. Of several entries with a name, links lead to the first. */
async function listReference(): Promise<GeneratedSection[]> {
  const lists = await Promise.all(
    helpTopics.map(async (name) => ({ name, entries: await topicToList[name]() })),
  );
  const all = [
    { name: 'commands', entries: await listCommands() },
    ...lists,
    { name: 'alerts', entries: listAlerts() },
  ];
  const anchors = new Set<string>();
  return all.map(({ name, entries }) => {
    // Of these, what programs see is the condition, and it is the heading of a part.
    const groups = name === 'reasons' ? Map.groupBy(entries, ({ kind }) => kind) : new Map([['', entries]]);
    const parts = [...groups].map(([heading, members]) => {
      const items = members.map((entry) =>
        formatEntry(heading === '' ? entry : { ...entry, kind: '' }, anchors),
      );
      return `${heading === '' ? '' : `**${heading}:**\n\n`}${items.join('')}`;
    });
    return { name, text: parts.join('\n') };
  });
}

function formatEntry({ name, kind, texts }: Entry, anchors: Set<string>): string {
  const anchor = name
    .toLowerCase()
    .replace(/^--(\S*).*/, '$1')
    .replace(' ', '-');
  const mark = anchors.has(anchor) ? '' : `<a id="${anchor}"></a>`;
  anchors.add(anchor);
  return `- ${mark}**\`${name}\`**: ${texts.join(' ')}${kind === '' ? '' : ` _${kind}_`}\n`;
}

async function listCommands(): Promise<Entry[]> {
  return (await loadCommands(commands)).map(({ row, command }) => {
    const [statuses = ''] = /Exit status: [^]*$/.exec(command.help) ?? [];
    const texts = [`${row.summary}.`, statuses.replaceAll('\n', ' ')];
    return { name: `vipnat ${row.name}`, kind: '', texts };
  });
}

/** The labels in a summary say what differs from alert to alert. */
function listAlerts(): Entry[] {
  const { groups } = parse(readFileSync('manifests/alerts.yaml', 'utf8')) as { groups: { rules: Alert[] }[] };
  return groups
    .flatMap(({ rules }) => rules)
    .map(({ alert, labels, annotations: { summary } }) => ({
      name: alert,
      kind: labels.severity,
      texts: [
        `${summary.replaceAll(/{{ \$(?:labels\.)?(\w+) }}/g, (_, label: string) => label.toUpperCase())}.`,
      ],
    }));
}

interface Alert {
  readonly alert: string;
  readonly labels: { readonly severity: string };
  readonly annotations: { readonly summary: string };
}

/** As prettier lays it out. */
function formatTable({ name, heads, rows }: GeneratedTable): GeneratedSection {
  const widths = heads.map((_, column) =>
    Math.max(...[heads, ...rows].map((row) => row[column]?.length ?? 0)),
  );
  const format = (row: readonly string[]) =>
    `| ${row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(' | ')} |\n`;
  const lines = [heads, widths.map((width) => '-'.repeat(width)), ...rows].map(format);
  return { name, text: lines.join('') };
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
