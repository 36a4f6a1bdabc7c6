/** What happens at which unit, by units in memory whose roles change between any two calls. */
import { type UnitRole, DevicePair, type Transaction, type PairUnit } from '../../../devices/pair.ts';
import { DeviceError } from '../../../devices/driver.ts';
import { describe, test, expect } from '@jest/globals';

type Role = UnitRole['role'] | 'silent' | 'unauthorized';

class World {
  readonly log: string[] = [];
  readonly roles: Role[];
  readonly pair: DevicePair<PairUnit>;
  /** Told of each call before it happens. */
  onCall: (call: string) => void = () => undefined;

  constructor(...roles: Role[]) {
    this.roles = roles;
    const units = ['A', 'B'].slice(0, roles.length);
    this.pair = new DevicePair(units.map((unit, at) => ({ unit, readRole: () => this.#ask(unit, at) })));
  }

  #ask(unit: string, at: number): Promise<UnitRole> {
    this.call(`ask ${unit}`);
    const role = this.roles[at] ?? 'unknown';
    if (role === 'silent') return Promise.reject(new DeviceError('unreachable', `${unit} is gone`));
    if (role === 'unauthorized') return Promise.reject(new DeviceError('unauthorized', 'who are you?'));
    return Promise.resolve({ role, why: '' });
  }

  call(what: string): void {
    this.log.push(what);
    this.onCall(what);
  }

  transact(changes: Partial<Transaction<PairUnit, string, string>> = {}): Promise<string> {
    const note = (what: string, { unit }: PairUnit) => {
      this.call(`${what} ${unit}`);
      return Promise.resolve(unit);
    };
    return this.pair.transact<string, string>({
      prepare: (unit) => note('prepare', unit),
      takeBack: (unit) => note('takeBack', unit).then(() => undefined),
      commit: (unit) => note('commit', unit),
      finish: (unit, _result, standby) => note(`finish (${standby})`, unit).then(() => undefined),
      ...changes,
    });
  }

  get acts(): readonly string[] {
    return this.log.filter((what) => !what.startsWith('ask'));
  }
}

describe('a transaction', () => {
  test.each([
    ['active standby', 'A', 'answers'],
    ['standby active', 'B', 'answers'],
    ['active silent', 'A', 'silent'],
    ['silent active', 'B', 'silent'],
    ['unauthorized active', 'B', 'silent'],
    ['active unknown', 'A', 'answers'],
    ['active', 'A', 'none'],
    ['unknown', 'A', 'none'],
  ])('of units that are %s is at %s, whose standby is: %s', async (roles, unit, standby) => {
    const world = new World(...(roles.split(' ') as Role[]));
    expect(await world.transact()).toBe(unit);
    expect(world.acts).toEqual([`prepare ${unit}`, `commit ${unit}`, `finish (${standby}) ${unit}`]);
  });

  const kindToRoles = {
    'no-active-unit': ['standby standby', 'active active', 'standby silent', 'unknown standby', 'standby'],
    unreachable: ['silent silent', 'silent'],
    unauthorized: ['unauthorized unauthorized'],
  };
  test.each(Object.entries(kindToRoles).flatMap(([kind, all]) => all.map((roles) => [roles, kind] as const)))(
    'of units that are %s writes nothing: %s',
    async (roles, kind) => {
      const world = new World(...(roles.split(' ') as Role[]));
      await expect(world.transact()).rejects.toMatchObject({ kind });
      expect(world.acts).toEqual([]);
    },
  );

  test('whose unit is asked right before and right after its commit', async () => {
    const world = new World('active', 'standby');
    await world.transact();
    const begin = ['ask A', 'ask B', 'prepare A'];
    expect(world.log).toEqual([...begin, 'ask A', 'commit A', 'ask A', 'finish (answers) A']);
  });
});

describe('when roles change', () => {
  test.each<[string, Record<string, string>, string, string]>([
    [
      'before the commit, what was written is taken back, and written at the other unit',
      { 'prepare A': 'standby active' },
      'B',
      'prepare A, takeBack A, prepare B, commit B, finish (answers) B',
    ],
    [
      'after the commit, it is done only when the other unit has it',
      { 'commit A': 'standby active' },
      'B',
      'prepare A, commit A, prepare B, commit B, finish (answers) B',
    ],
    [
      'again and again, it ends after three starts, and nothing waits anywhere',
      { 'prepare A': 'standby active', 'prepare B': 'active standby' },
      'role-changed',
      'prepare A, takeBack A, prepare B, takeBack B, prepare A, takeBack A',
    ],
    [
      'and no unit is active in the middle, what was written is taken back',
      { 'prepare A': 'standby standby' },
      'no-active-unit',
      'prepare A, takeBack A',
    ],
  ])('%s', async (_, callToRoles, outcome, acts) => {
    const world = new World('active', 'standby');
    world.onCall = (what) => {
      const roles = callToRoles[what]?.split(' ') as Role[] | undefined;
      if (roles !== undefined) world.roles.splice(0, 2, ...roles);
    };
    const ended = await world.transact().catch((error: unknown) => (error as DeviceError).kind);
    expect([ended, world.acts.join(', ')]).toEqual([outcome, acts]);
  });

  test('because the pinned unit is gone, the other one gets it', async () => {
    const world = new World('active', 'standby');
    world.onCall = (what) => {
      if (what === 'prepare A') world.roles.splice(0, 2, 'silent', 'active');
    };
    const takeBack = (unit: PairUnit) => unit.readRole().then(() => undefined);
    expect(await world.transact({ takeBack })).toBe('B');
    expect(world.acts).toEqual(['prepare A', 'prepare B', 'commit B', 'finish (silent) B']);
  });
});

describe('a transaction that fails', () => {
  test.each(['prepare', 'commit'] as const)('in its %s takes back what waits, and says why', async (act) => {
    const world = new World('active', 'standby');
    const fail = () => Promise.reject(new DeviceError('refused', 'table full'));
    await expect(world.transact({ [act]: fail })).rejects.toThrow('table full');
    expect(world.acts.at(-1)).toBe('takeBack A');
  });

  test('by what is no problem of the device asks it nothing more', async () => {
    const world = new World('active', 'standby');
    const end = new Error('the process ends');
    await expect(world.transact({ prepare: () => Promise.reject(end) })).rejects.toBe(end);
    expect(world.acts).toEqual([]);
  });
});

test('the state names each unit, its role, and why it is not known', async () => {
  const world = new World('active', 'silent');
  expect(await world.pair.readUnits()).toEqual([
    { unit: 'A', role: 'active', isInSync: null, why: '' },
    { unit: 'B', role: 'unresponsive', isInSync: null, why: 'B is gone' },
  ]);
  expect(await new World('unauthorized').pair.readUnits()).toMatchObject([
    { role: 'unknown', why: 'who are you?' },
  ]);
});
