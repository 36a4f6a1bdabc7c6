import { test, expect } from '@jest/globals';
import { targets } from '../engine/targets.ts';
import { readdirSync, readFileSync } from 'node:fs';

test('there are a million cases and more, and each target of the table is fuzzed by one test', () => {
  const cases = Object.values(targets).map((row) => row.cases);
  expect(cases.reduce((sum, count) => sum + count, 0)).toBeGreaterThanOrEqual(1_000_000);
  const folder = new URL('.', import.meta.url);
  const sources = readdirSync(folder).filter(
    (name) => name.endsWith('.test.ts') && name !== 'targets.test.ts',
  );
  const texts = sources.map((name) => readFileSync(new URL(name, folder), 'utf8')).join('\n');
  for (const name of Object.keys(targets)) expect(texts.split(`name: '${name}',`)).toHaveLength(2);
});
