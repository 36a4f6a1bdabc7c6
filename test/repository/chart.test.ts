import { describe, expect, test } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import { listChoices, optionNames } from '../../config/options.ts';

const read = (file: string) => readFileSync(`manifests/chart/${file}`, 'utf8');

interface Schema {
  readonly enum?: readonly string[];
  readonly additionalProperties?: unknown;
  readonly properties?: Readonly<Record<string, Schema>>;
}

const schema = JSON.parse(read('values.schema.json')) as Schema;
const values = parse(read('values.yaml')) as Record<string, unknown>;

describe("the chart's", () => {
  test('schema knows every option of vipnat but the virtual IPs and the name of each node, its choices too, and no other', () => {
    const { properties = {}, additionalProperties } = schema.properties?.['options'] ?? {};
    expect(Object.keys(properties)).toEqual(optionNames.filter((one) => one !== 'vip' && one !== 'nodeName'));
    expect(additionalProperties).toBe(false);
    for (const name of optionNames.filter((one) => listChoices(one).length > 0))
      expect([name, properties[name]?.enum]).toEqual([name, listChoices(name)]);
  });

  test('schema knows every value, and no other but those that Helm adds', () => {
    expect(Object.keys(schema.properties ?? {}).sort()).toEqual(
      ['definitions', 'global', ...Object.keys(values)].sort(),
    );
    expect(schema.additionalProperties).toBe(false);
  });

  test('README has a row for every value, with its default', () => {
    const rows = [...read('README.md').matchAll(/^\| `([A-Za-z.]+)` +\| (?:`([^`]*)`)? +\|/gm)];
    const listLeaves = (value: object, path = ''): (readonly [string, unknown])[] =>
      Object.entries(value).flatMap(([key, one]: [string, unknown]) => {
        const isNested = typeof one === 'object' && !Array.isArray(one) && Object.keys(one ?? {}).length > 0;
        return isNested ? listLeaves(one as object, `${path}${key}.`) : [[`${path}${key}`, one] as const];
      });
    const format = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value));
    expect(rows.map(([, name, preset = '']) => [name, preset])).toEqual(
      listLeaves(values).map(([name, value]) => [name, format(value)]),
    );
  });
});
