import { test, expect } from '@jest/globals';
import { describeLoad } from '../../../../tools/bench/shared/load.ts';
import { cpus } from 'node:os';

test('the load is told, and what follows where others kept the processors busy', () => {
  expect(describeLoad([1.2, 0.4])).toBe('Load 0 to 1.');
  expect(describeLoad([1, 3 * cpus().length])).toContain('compare rows');
});
