import { expect, test } from '@jest/globals';
import { labFaults } from '../../support/chaos/lab/faults.ts';
import { faults } from '../../support/chaos/stand-in/faults.ts';
import { meanings } from '../../support/chaos/world/faults.ts';

const names = (list: readonly { readonly name: string }[]) =>
  [...new Set(list.map(({ name }) => name))].sort();
const without = (excuse: string) =>
  Object.entries(meanings)
    .flatMap(([name, meaning]) => (excuse in meaning ? [] : [name]))
    .sort();

test('walks are drawn from every fault that their world can do', () => {
  expect(names(faults)).toEqual(without('notOnStandIn'));
  expect(names(labFaults)).toEqual(without('notOnLab'));
});

test('every fault happens somewhere', () => {
  expect(names([...faults, ...labFaults])).toEqual(Object.keys(meanings).sort());
});
