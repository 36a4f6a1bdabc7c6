import { expect, test } from '@jest/globals';
import { globSync, readFileSync } from 'node:fs';
import { readSection, readTable, unquote } from '../support/documents/table.ts';

const rows = readTable(readSection('docs/drivers.md', 'What the controller does'));

test.each(rows)('docs/drivers.md names a test that there is: the controller %s', (_, file, title) => {
  const [path = '', ...others] = globSync(`test/{,cluster/}${unquote(file)}{,.full}.test.ts`);
  expect(others).toEqual([]);
  expect(readFileSync(path, 'utf8')).toContain(`'${unquote(title)}'`);
});
