import { beforeAll, describe, test, expect } from '@jest/globals';
import { readFile } from 'node:fs/promises';
import { type Endpoint, formatEndpoint } from '../../lib/net.ts';
import { readTable, unquote, readSection } from '../support/documents/table.ts';
import {
  schema,
  optionNames,
  nameFlag,
  nameVariable,
  describeOption,
  listChoices,
} from '../../config/options.ts';
import { readDocument } from '../../config/file.ts';
import { keepalivedFlags } from '../../cli/keepalived.ts';
import { pathToTables, fillTables } from '../support/documents/generated-tables.ts';
import { commandNames, table } from '../../cli/table.ts';
import { exitStatuses } from '../../lib/text.ts';
import { loadCommands } from '../../cli/command.ts';
import { eventCatalogue } from '../../lib/telemetry/events.ts';

let configuration = '';
let events = '';
beforeAll(async () => {
  configuration = await readFile('docs/configuration.md', 'utf8');
  events = await readFile('docs/events.md', 'utf8');
});

const isEndpoint = (value: unknown): value is Endpoint => Object(value) === value && 'port' in Object(value);

const formatDefault = (value: unknown) => {
  if (typeof value === 'number') return `${value}ms`;
  if (isEndpoint(value)) return formatEndpoint(value);
  return value === null || Array.isArray(value) ? 'none' : value;
};

describe('docs/configuration.md', () => {
  test('has a row for every option, in the order of the schema, and no other', () => {
    const rows = readTable(configuration).map(([flag = '', variable, key, preset, , example]) => ({
      flag: unquote(flag).split(' ')[0],
      variable: unquote(variable),
      key: unquote(key),
      preset: unquote(preset),
      example: unquote(example),
    }));
    const defaults = schema.parse({});
    expect(rows).toEqual(
      optionNames.map((name) => ({
        ...{ flag: nameFlag(name), variable: nameVariable(name), key: name },
        preset: formatDefault(defaults[name]),
        example: describeOption(name).example,
      })),
    );
  });

  test('names every choice of an option in its row', () => {
    const meanings = new Map(readTable(configuration).map(([, , key, , text = '']) => [unquote(key), text]));
    for (const name of optionNames) {
      const named = [...(meanings.get(name) ?? '').matchAll(/`([^`]+)`/g)].map(([, word]) => word);
      expect(named).toEqual(expect.arrayContaining([...listChoices(name)]));
    }
  });

  test('has an example file without problems', () => {
    const [, yaml = ''] = /```yaml\n([^]*?)```/.exec(configuration) ?? [];
    const { settings, problems } = readDocument(yaml, 'example');
    expect(problems).toEqual([]);
    expect(settings.size).toBeGreaterThan(3);
    const values = Object.fromEntries([...settings].map(([name, { value }]) => [name, value]));
    expect(schema.safeParse(values)).toMatchObject({ success: true });
  });
});

test('docs/configuration.md has an item for every switch of keepalived, and no other', () => {
  const [, section = ''] = /\n## keepalived\n([^]*?)\n## /.exec(configuration) ?? [];
  const items = [...section.matchAll(/^- `--([a-z-]+) [^`]+`: /gm)].map(([, name]) => name);
  expect(items).toEqual(Object.keys(keepalivedFlags));
});

test.each([...pathToTables])('%s has the tables that scripts/tables writes', async (path, tables) => {
  const text = await readFile(path, 'utf8');
  // How wide the columns are is prettier's to check.
  const narrow = (page: string) => page.replaceAll(/ +/g, ' ').replaceAll(/-{4,}/g, '---');
  expect(narrow(fillTables(text, tables))).toBe(narrow(text));
});

test('docs/commands.md has a row for every command, in the order of help, and no other', async () => {
  const page = await readFile('docs/commands.md', 'utf8');
  const rows = [...page.matchAll(/^\| `vipnat ([a-z]+)[^`]*` +\|/gm)].map(([, name]) => name);
  expect(rows).toEqual(commandNames);
});

test.each([...optionNames])('every option %s has an example that works and is not the default', (name) => {
  const { example, isList } = describeOption(name);
  const read = schema.parse({ [name]: isList ? example.split(',') : example });
  expect(read[name]).not.toEqual(schema.parse({})[name]);
});

test('docs/errors.md has a row for every exit status, in the order of the table in code', () => {
  const rows = readTable(readSection('docs/errors.md', 'Exit statuses')).map(([status]) => unquote(status));
  expect(rows).toEqual([...Object.values(exitStatuses).map(String), '128 + N']);
});

test('docs/commands.md and the help of each command name only exit statuses that are in the table', async () => {
  const page = await readFile('docs/commands.md', 'utf8');
  const cells = [...page.matchAll(/^\| `vipnat [a-z]+.*\|([^|]+)\|$/gm)].map(([, cell = '']) => cell);
  const helps = (await loadCommands(table)).map(
    ({ command: { help } }) => /^Exit status: [^]*$/m.exec(help)?.[0] ?? 'none',
  );
  const named = [...cells, ...helps].flatMap((text) => text.match(/\b\d+\b/g) ?? ['none']);
  expect(cells).toHaveLength(commandNames.length);
  const known: readonly string[] = Object.values(exitStatuses).map(String);
  expect(named.filter((status) => !known.includes(status))).toEqual([]);
});

test('docs/events.md has a row for every reason of an event, in the order of the catalogue, and no other', () => {
  expect(readTable(events).map((cells) => cells.slice(0, 3).map(unquote))).toEqual(
    Object.entries(eventCatalogue).map(([reason, { type, action }]) => [reason, type, action]),
  );
});
