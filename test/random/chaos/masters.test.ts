import { describe, expect, test } from '@jest/globals';
import { fc } from '../../support/random/fc.ts';
import {
  hasQuorum,
  listRemedies,
  listUsable,
  type MasterState,
  planRemedies,
  remedy,
  soundMaster,
} from '../../support/chaos/lab/masters.ts';

const names = ['m1', 'm2', 'm3'];

const states = fc.tuple(
  ...names.map((name) =>
    fc.record<MasterState>({
      name: fc.constant(name),
      hasPower: fc.boolean(),
      isLinked: fc.boolean(),
      etcd: fc.constantFrom('running', 'frozen', 'dead'),
      apiserver: fc.constantFrom('running', 'frozen', 'leaving', 'dead'),
      isBlackholed: fc.boolean(),
      hasKeepalived: fc.boolean(),
    }),
  ),
);

function mend(masters: readonly MasterState[]): MasterState[] {
  const remedies = planRemedies(masters);
  return masters.map((master) => remedies.filter((one) => one.master === master.name).reduce(remedy, master));
}

describe('what the oracle of the lab knows', () => {
  test('whatever was done, the remedies leave a majority of etcd, an apiserver and somebody to hold the VIP', () => {
    fc.assert(
      fc.property(states, (masters) => {
        const after = mend(masters);
        expect(hasQuorum(after)).toBe(true);
        expect(listUsable(after)).not.toEqual([]);
        expect(after.some((one) => one.hasKeepalived && one.hasPower && one.isLinked)).toBe(true);
        expect(planRemedies(after)).toEqual([]);
        for (const one of masters)
          expect(listRemedies(one).reduce(remedy, one)).toEqual(soundMaster(one.name));
      }),
    );
  });

  test('without a majority of etcd nobody is usable, and a blackholed apiserver only to its own host', () => {
    const cut = (name: string): MasterState => ({ ...soundMaster(name), isLinked: false });
    expect(listUsable([soundMaster('m1'), cut('m2'), cut('m3')])).toEqual([]);
    const masters = [soundMaster('m1'), { ...soundMaster('m2'), isBlackholed: true }, cut('m3')];
    expect(listUsable(masters)).toEqual(['m1']);
    expect(listUsable(masters, 'm2')).toEqual(['m1', 'm2']);
  });
});
