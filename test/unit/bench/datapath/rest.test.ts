import { expect, test } from '@jest/globals';
import { renderUnrest } from '../../../../bench/datapath/rest.ts';
import { makeWindow } from './windows.ts';

test('figures of a machine that did something else say so', () => {
  const windows = [0.1, 1.7, 1.9].map((rest) => makeWindow({ rest }));
  expect(renderUnrest(windows)).toContain('busy for 1.7 s in each second');
  expect(renderUnrest(windows.slice(0, 1))).toBe('');
});
