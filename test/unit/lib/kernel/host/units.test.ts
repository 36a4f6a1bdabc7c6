import { expect, test } from '@jest/globals';
import { readModules } from '../../../../../lib/kernel/host/modules.ts';
import { listUnits } from '../../../../../lib/kernel/host/units.ts';

test('a service that nobody installed has no unit', async () => {
  expect([...(await listUnits(['vipnat-is-not-called-so']))]).toEqual([]);
});

test('a module that no kernel has is never here', async () => {
  const states = await readModules(['no_such_module']);
  expect(['absent', 'unknown']).toContain(states.get('no_such_module'));
});
