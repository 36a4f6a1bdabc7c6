import { test, expect } from '@jest/globals';
import { globSync, readFileSync } from 'node:fs';

test('there are a million cases and more, of targets with a name each', () => {
  const suites = globSync('*.test.ts', { cwd: new URL('.', import.meta.url) });
  const texts = suites.map((name) => readFileSync(new URL(name, import.meta.url), 'utf8')).join('\n');
  const targets = [...texts.matchAll(/^ +name: '([^']+)',\n +cases: ([\d_]+),$/gm)];
  const names = targets.map(([, name]) => name);
  expect(names.length).toBeGreaterThanOrEqual(40);
  expect(new Set(names).size).toBe(names.length);
  const cases = targets.map(([, , count = '']) => Number(count.replaceAll('_', '')));
  expect(cases.reduce((sum, count) => sum + count, 0)).toBeGreaterThanOrEqual(1_000_000);
});
