import { expect, jest, test } from '@jest/globals';
import { byExtent } from '../../../support/jest/extent.ts';
import { printFigure } from '../engine/print-figure.ts';
import { walk } from './walk.ts';

// Minutes on a busy machine.
jest.setTimeout(3_600_000);

const [walks, actions] = byExtent({ gate: [6, 60], full: [30, 100], long: [300, 100] });

test('devices at random: they fail, forget and refuse while Services, endpoints and two controllers come and go', async () => {
  const sums = new Map<string, number>();
  for (let seed = 1; seed <= walks; seed += 1) {
    const { complaint, history, counts } = await walk(seed, actions);
    if (complaint !== null)
      expect([`seed ${seed}: ${complaint}`, ...history].join('\n')).toBe('no complaint');
    for (const [what, count] of counts) sums.set(what, (sums.get(what) ?? 0) + count);
  }
  printFigure(JSON.stringify([...sums]));
  expect(sums.get('served')).toBeGreaterThan(walks * 3);
});
