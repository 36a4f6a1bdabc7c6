import { test, expect } from '@jest/globals';
import { readFile } from 'node:fs/promises';
import { readTable, unquote, readSection } from '../support/documents/table.ts';
import { schema, optionNames, describeOption } from '../../config/options.ts';
import { readDocument } from '../../config/file.ts';
import { pathToSections, fillSections } from '../support/documents/generated-tables.ts';
import { table } from '../../cli/table.ts';
import { exitStatuses } from '../../lib/text.ts';
import { loadCommands } from '../../cli/command.ts';

test('docs/reference.md has an example file without problems', async () => {
  const [, yaml = ''] = /```yaml\n(vip:[^]*?)```/.exec(await readFile('docs/reference.md', 'utf8')) ?? [];
  const { settings, problems } = readDocument(yaml, 'example');
  expect(problems).toEqual([]);
  expect(settings.size).toBeGreaterThan(3);
  const values = Object.fromEntries([...settings].map(([name, { value }]) => [name, value]));
  expect(schema.safeParse(values)).toMatchObject({ success: true });
});

test.each([...pathToSections])('%s has the parts that scripts/tables writes', async (path, sections) => {
  const text = await readFile(path, 'utf8');
  // How wide the columns are is prettier's to check.
  const narrow = (page: string) => page.replaceAll(/ +/g, ' ').replaceAll(/-{4,}/g, '---');
  expect(narrow(fillSections(text, sections))).toBe(narrow(text));
});

test.each([...optionNames])('every option %s has an example that works and is not the default', (name) => {
  const { example, isList } = describeOption(name);
  const read = schema.parse({ [name]: isList ? example.split(',') : example });
  expect(read[name]).not.toEqual(schema.parse({})[name]);
});

test('docs/reference.md has a row for every exit status, in the order of the table in code', () => {
  const rows = readTable(readSection('docs/reference.md', 'Exit statuses')).map(([status]) =>
    unquote(status),
  );
  expect(rows).toEqual([...Object.values(exitStatuses).map(String), '128 + N']);
});

test('the help of each command names only exit statuses that are in the table', async () => {
  const helps = (await loadCommands(table)).map(
    ({ command: { help } }) => /^Exit status: [^]*$/m.exec(help)?.[0] ?? 'none',
  );
  const named = helps.flatMap((text) => text.match(/\b\d+\b/g) ?? ['none']);
  const known: readonly string[] = Object.values(exitStatuses).map(String);
  expect(named.filter((status) => !known.includes(status))).toEqual([]);
});
