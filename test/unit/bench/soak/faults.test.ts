import { test, expect } from '@jest/globals';
import { drawSteps, soakFaults } from '../../../../tools/bench/soak/faults.ts';
import { parseSoakOptions } from '../../../../tools/bench/soak/options.ts';

test('a seed draws the same faults again, another one others, and an hour has all of them', () => {
  expect(drawSteps(1, 360)).toEqual(drawSteps(1, 360));
  expect(drawSteps(2, 360)).not.toEqual(drawSteps(1, 360));
  expect(new Set(drawSteps(1, 360).map(({ fault }) => fault))).toEqual(new Set(soakFaults));
});

test('no fault ends an agent: its process is what is measured', () => {
  expect(soakFaults.filter((name) => /agent|power/.test(name))).toEqual([]);
});

test('an hour is the default, and what is no number is refused by name', () => {
  expect(parseSoakOptions([])).toEqual({ minutes: 60, seed: 1, isReport: false });
  expect(() => parseSoakOptions(['--minutes', 'long'])).toThrow('--minutes long is no number of minutes');
  expect(() => parseSoakOptions(['--seed', '-'])).toThrow('--seed - is no seed');
});
