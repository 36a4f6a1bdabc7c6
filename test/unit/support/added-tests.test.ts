import { describe, expect, test } from '@jest/globals';
import { globSync } from 'node:fs';
import { additions, budgetSeconds, chooseAdditions } from '../../support/run/changes.ts';

const sources = globSync(
  '{.github,agent,balancer,cli,controller,docs,lib,manifests,scripts,test,tools}/**/*',
);
const paths = [...sources, ...globSync('*')];
const tests = globSync('test/**/*.test.ts');

describe('what a change adds to the gate', () => {
  test('is named by paths and files that are there', () => {
    const beginnings = additions.flatMap((addition) => addition.paths);
    expect(beginnings.filter((beginning) => !paths.some((path) => path.startsWith(beginning)))).toEqual([]);
    const patterns = additions.map(({ files }) => files);
    expect(patterns.filter((pattern) => !tests.some((path) => new RegExp(pattern).test(path)))).toEqual([]);
  });

  test('belongs to what changed', () => {
    const { chosen, leftOut } = chooseAdditions(['lib/keepalived/read.ts', 'README.md']);
    expect([chosen.map(({ files }) => files), leftOut]).toEqual([['netns/foreign-keepalived\\.full'], []]);
    expect(chooseAdditions(['README.md'])).toEqual({ chosen: [], leftOut: [] });
  });

  test('fits into its time, and the rest is named', () => {
    const { chosen, leftOut } = chooseAdditions(additions.flatMap((addition) => addition.paths));
    expect(new Set([...chosen, ...leftOut])).toEqual(new Set(additions));
    const seconds = chosen.reduce((sum, addition) => sum + addition.seconds, 0);
    expect(seconds).toBeLessThanOrEqual(budgetSeconds);
    expect(leftOut.filter((addition) => addition.seconds <= budgetSeconds - seconds)).toEqual([]);
  });
});
