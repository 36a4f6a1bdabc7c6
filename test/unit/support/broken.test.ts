import { expect, test } from '@jest/globals';
import { globSync } from 'node:fs';
import { type Broken, broken } from '../../support/broken/broken.ts';
import { changeSource } from '../../support/broken/source-change.ts';

const tests = globSync('test/**/*.test.ts');

test.each(Object.values<Broken>(broken))('there is a source to break for one that $name', (one) => {
  expect(changeSource(one)).toContain(one.to);
});

test.each(Object.values<Broken>(broken))('there are tests to catch one that $name', ({ caughtBy }) => {
  const patterns = caughtBy.map((text) => text.split(' ')[1] ?? '');
  expect(patterns.filter((pattern) => !tests.some((path) => new RegExp(pattern).test(path)))).toEqual([]);
});
