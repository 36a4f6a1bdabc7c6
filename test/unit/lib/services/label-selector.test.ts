import { describe, expect, test } from '@jest/globals';
import { findSelectorProblem, isSelected, mentions } from '../../../../lib/services/label-selector.ts';

const labels = { app: 'web', tier: 'front' };

function select(key: string, operator: string, values?: string[]) {
  return { matchExpressions: [{ key, operator, ...(values === undefined ? {} : { values }) }] };
}

describe('isSelected', () => {
  test.each([
    ['none', undefined, true],
    ['an empty one', {}, true],
    ['a label', { matchLabels: { app: 'web' } }, true],
    ['two labels, one of which differs', { matchLabels: { app: 'web', tier: 'back' } }, false],
    ['In', select('app', 'In', ['web', 'api']), true],
    ['In, with others', select('app', 'In', ['api']), false],
    ['In, without the label', select('zone', 'In', ['a']), false],
    ['NotIn', select('app', 'NotIn', ['api']), true],
    ['NotIn, with it', select('app', 'NotIn', ['web']), false],
    ['NotIn, without the label', select('zone', 'NotIn', ['a']), true],
    ['Exists', select('app', 'Exists'), true],
    ['Exists, without the label', select('zone', 'Exists'), false],
    ['DoesNotExist', select('zone', 'DoesNotExist'), true],
    ['DoesNotExist, with it', select('app', 'DoesNotExist'), false],
    ['an operator that nobody knows', select('app', 'Matches', ['w*']), false],
    ['a name that every object of JavaScript has', { matchLabels: { constructor: 'x' } }, false],
  ])('%s', (_, selector, expected) => {
    expect(isSelected(selector, labels)).toBe(expected);
  });

  test('an object without labels is selected by no label', () => {
    expect(isSelected({ matchLabels: { app: 'web' } }, null)).toBe(false);
    expect(isSelected(select('app', 'DoesNotExist'), undefined)).toBe(true);
  });
});

test('what is wrong with a selector is said', () => {
  expect(findSelectorProblem(select('app', 'In', ['web']))).toBeNull();
  expect(findSelectorProblem(select('app', 'Exists'))).toBeNull();
  expect(findSelectorProblem(select('app', 'Like', ['w']))).toContain('operator Like of app');
  expect(findSelectorProblem(select('app', 'In'))).toBe('In of app has no values');
  expect(findSelectorProblem(select('app', 'Exists', ['web']))).toBe('Exists of app takes no values');
});

test('a selector mentions a label in either part', () => {
  expect(mentions({ matchLabels: { app: 'web' } }, 'app')).toBe(true);
  expect(mentions(select('app', 'Exists'), 'app')).toBe(true);
  expect(mentions(select('app', 'Exists'), 'tier')).toBe(false);
  expect(mentions(null, 'app')).toBe(false);
});
