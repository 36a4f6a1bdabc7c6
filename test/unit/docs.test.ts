import { beforeAll, describe, expect, test } from '@jest/globals';
import { readFile } from 'node:fs/promises';
import {
  describeOption,
  listChoices,
  nameFlag,
  nameVariable,
  optionNames,
  schema,
} from '../../agent/config/options.ts';
import { readDocument } from '../../agent/config/document.ts';
import { errorCodes, VipnatError } from '../../lib/errors.ts';

let configuration = '';
let errors = '';
beforeAll(async () => {
  configuration = await readFile('docs/configuration.md', 'utf8');
  errors = await readFile('docs/errors.md', 'utf8');
});

/** The cells of a document's table, without its two head lines. */
const readTable = (text: string) =>
  text
    .split('\n')
    .filter((line) => line.startsWith('| '))
    .slice(2)
    .map((line) =>
      line
        .slice(2, -2)
        .split(' | ')
        .map((cell) => cell.trim()),
    );

const formatDefault = (value: unknown) => {
  if (typeof value === 'number') return `${value}ms`;
  return value === null || Array.isArray(value) ? 'none' : value;
};

const unquote = (cell = '') => cell.replaceAll('`', '');

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
        flag: nameFlag(name),
        variable: nameVariable(name),
        key: name,
        preset: formatDefault(defaults[name]),
        example: describeOption(name).example,
      })),
    );
  });

  test('names every choice of an option in its row', () => {
    const meanings = new Map(
      readTable(configuration).map(([, , key, , meaning = '']) => [unquote(key), meaning]),
    );
    for (const name of optionNames) {
      const named = [...(meanings.get(name) ?? '').matchAll(/`([^`]+)`/g)].map(([, word]) => word);
      expect(named).toEqual(expect.arrayContaining([...listChoices(name)]));
    }
  });

  test('names no variable that is none', () => {
    const known = [
      ...optionNames.map(nameVariable),
      'VIPNAT_CONFIG',
      'VIPNAT_SERVICE_HOST',
      'VIPNAT_PORT',
      'VIPNAT_',
    ];
    expect(known).toEqual(expect.arrayContaining(configuration.match(/VIPNAT_[A-Z_]*/g) ?? []));
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

describe('every option', () => {
  test.each([...optionNames])('%s has an example that works and is not the default', (name) => {
    const { example, isList } = describeOption(name);
    const read = schema.parse({ [name]: isList ? example.split(',') : example });
    expect(read[name]).not.toEqual(schema.parse({})[name]);
  });
});

test('docs/errors.md has a row for every code, in the order of the catalogue, with its exit status and retry', () => {
  const rows = readTable(errors).map(([code, , , exit, retry]) => [unquote(code), Number(exit), retry]);
  expect(rows).toEqual(
    errorCodes.map((code) => {
      const error = new VipnatError(code, 'x');
      return [code, error.exitCode, error.retry ? 'yes' : 'no'];
    }),
  );
});
