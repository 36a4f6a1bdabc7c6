import { expect, jest, test } from '@jest/globals';
import { byExtent } from '../../../support/jest/extent.ts';
import { expectNoComplaint } from '../engine/walks.ts';
import { walk } from './walk.ts';

// Minutes on a busy machine.
jest.setTimeout(3_600_000);

const [walks, actions] = byExtent({ gate: [3, 60], full: [30, 100], long: [300, 100] });

test('devices at random: they fail, forget and refuse while Services, endpoints and two controllers come and go', async () => {
  const sums = await expectNoComplaint(walks, (seed) => walk(seed, actions));
  expect(sums.get('served')).toBeGreaterThan(walks * 3);
});
