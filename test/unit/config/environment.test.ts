import { expect, test } from '@jest/globals';
import { readEnvironment, readTick } from '../../../config/environment.ts';

test.each([
  [{}, undefined],
  [{ VIPNAT_TEST_TICK_MS: '600000' }, 600_000],
  [{ VIPNAT_TEST_TICK_MS: '10m' }, undefined],
])('the tick of the tests is no option: %j', (environment, tickMs) => {
  expect(readTick(environment)).toBe(tickMs);
  const { settings, problems } = readEnvironment(environment);
  expect([settings.size, problems]).toEqual([0, []]);
});
