import { test, expect } from '@jest/globals';
import { makeWindow } from './windows.ts';
import { renderUnrest } from '../../../../tools/bench/datapath/rest.ts';

test('figures of a machine that did something else say so', () => {
  const windows = [0.1, 1.7, 1.9].map((rest) => makeWindow({ rest }));
  expect(renderUnrest(windows)).toContain('busy for 1.7 s in each second');
  expect(renderUnrest(windows.slice(0, 1))).toBe('');
});
