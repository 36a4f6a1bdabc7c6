import { type Balancer } from '../driver.ts';
import { type Bench } from './bench.ts';
import { type Check, type Need } from './check.ts';
import { CheckFailed } from './check-failed.ts';
import { type Shapes } from './shapes.ts';

interface ChangeCase {
  readonly name: string;
  readonly title: string;
  readonly needs?: readonly Need[];
  /** The states that the balancer goes through, one after the other, and back to the first. */
  readonly states: (shapes: Shapes) => readonly Balancer[];
}

const cases: readonly ChangeCase[] = [
  {
    name: 'change-members',
    title: 'members come and go',
    states: (shapes) => [
      shapes.plain(),
      withMembers(shapes, [shapes.member(1), shapes.member(2)]),
      withMembers(shapes, [shapes.member(3)]),
      withMembers(shapes, [shapes.member(0), shapes.member(1), shapes.member(2), shapes.member(3)]),
    ],
  },
  {
    name: 'change-member-port',
    title: 'a member has another port at the same address',
    states: (shapes) => [
      withMembers(shapes, [shapes.member(0)]),
      withMembers(shapes, [shapes.member(0, 1)]),
      withMembers(shapes, [shapes.member(0), shapes.member(0, 1)]),
    ],
  },
  {
    name: 'change-no-members',
    title: 'a listener without members, from the beginning and later',
    states: (shapes) => [withMembers(shapes, []), withMembers(shapes, [shapes.member(0)])],
  },
  {
    name: 'change-listeners',
    title: 'listeners come and go',
    states: (shapes) => {
      const ports = [0, 1, 2].map((port) => shapes.listener(port, [shapes.member(0)]));
      const choose = (...chosen: readonly number[]) => ({
        ...shapes.plain(),
        listeners: ports.filter((_, at) => chosen.includes(at)),
      });
      return [choose(0), choose(0, 1, 2), choose(1), choose(2)];
    },
  },
  {
    name: 'change-addresses',
    title: 'addresses come and go',
    states: (shapes) =>
      [[0], [0, 1], [2], [2, 3, 0]].map((chosen) => ({
        ...shapes.plain(),
        addresses: chosen.map((at) => shapes.address(at)),
      })),
  },
  {
    name: 'change-method',
    title: 'each method that the device has',
    needs: ['two methods'],
    states: (shapes) => shapes.methods.map((method) => ({ ...shapes.plain(), method })),
  },
  {
    name: 'change-affinity',
    title: 'affinity comes, gets another time, and goes',
    needs: ['affinity'],
    states: (shapes) => [null, 60, 10_800].map((affinityS) => ({ ...shapes.plain(), affinityS })),
  },
  {
    name: 'change-weights',
    title: 'weights from 1 to 256',
    needs: ['weights'],
    states: (shapes) =>
      [
        [1, 1],
        [2, 3],
        [256, 1],
        [7, 256],
      ].map(([first, second]) =>
        withMembers(shapes, [shapes.member(0, 0, first), shapes.member(1, 0, second)]),
      ),
  },
  {
    name: 'change-weight-zero',
    title: 'a member with weight 0 stays listed, and gets its share again',
    needs: ['drain'],
    states: (shapes) =>
      [
        [1, 1],
        [0, 1],
        [1, 0],
        [0, 0],
      ].map(([first, second]) =>
        withMembers(shapes, [shapes.member(0, 0, first), shapes.member(1, 0, second)]),
      ),
  },
];

/** What people and controllers change of a balancer. */
export const changeChecks: readonly Check[] = cases.map(({ name, title, needs = [], states }) => ({
  name,
  title,
  needs,
  run: (bench) => goThrough(bench, states(bench.shapes)),
}));

function withMembers(shapes: Shapes, members: Balancer['listeners'][number]['members']): Balancer {
  return { ...shapes.plain(), listeners: [shapes.listener(0, members)] };
}

async function goThrough(bench: Bench, states: readonly Balancer[]): Promise<void> {
  const subject = bench.open();
  const neighbour = bench.shapes.another(1);
  await subject.settle(neighbour);
  const round = [...states, ...states.slice(0, 1)];
  for (const [at, wanted] of round.entries()) {
    if (at > 0 && (await subject.plan(wanted)).length === 0)
      throw new CheckFailed(`plan of change ${at} is empty`);
    await subject.settle(wanted);
    const when = at === 0 ? 'at first' : `after change ${at}`;
    const fresh = bench.open();
    await fresh.expectOnly([wanted, neighbour], when);
    await fresh.expectNoPlan(wanted, when);
  }
}
