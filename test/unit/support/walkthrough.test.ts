import { describe, expect, test } from '@jest/globals';
import { isAsShown, readSteps } from '../../support/documents/walkthrough.ts';

describe('what a document shows of an output', () => {
  test.each([
    ['all of it', ['a', 'b'], 'a\nb\n'],
    ['nothing', [], ''],
    ['any words in a line', ['a … d'], 'a b c d\n'],
    ['any lines, or none', ['…', 'b', '…'], 'a\na\nb\n'],
    ['columns as wide as what is in them', ['  a  b'], '  a      b\n'],
    ['signs that mean something in a pattern', ['a (b.c)*'], 'a (b.c)*\n'],
  ])('is there: %s', (_, output, printed) => {
    expect(isAsShown(printed, output)).toBe(true);
  });

  test.each([
    ['a line is missing', ['a', 'b'], 'a\n'],
    ['there is one more', ['a'], 'a\nb\n'],
    ['something is printed where nothing shall be', [], 'a\n'],
    ['the words of a line go on', ['a …', 'c'], 'a b\nc d\n'],
    ['a line begins elsewhere', ['  a'], 'a\n'],
    ['a sign stands for another one', ['a.c'], 'abc\n'],
    ['the order is another one', ['a', '…', 'b'], 'b\na\n'],
  ])('is not there: %s', (_, output, printed) => {
    expect(isAsShown(printed, output)).toBe(false);
  });
});

test('a step of a document tells what it says before anything is typed, and what is typed', () => {
  const [first, second] = readSteps('docs/quickstart.md', 'An existing cluster');
  expect(first?.lead).toMatch(/^\*\*Check each control-plane node\.\*\*/);
  expect(first?.commands.map(({ command }) => command)).toEqual(['vipnat doctor --vip 10.77.0.50']);
  expect(second?.lead).toContain('on each node:');
  expect(second?.lead).not.toContain('vipnat plan');
});
