/** What is done at a unit of HAProxy, by a unit in memory that does it. */
import { describe, test, expect } from '@jest/globals';
import { countSteps } from '../../../support/fakes/count-steps.ts';
import { FakeHaproxy } from '../../../support/devices/fake-haproxy.ts';
import { planSteps } from '../../../../devices/haproxy/steps.ts';
import { type Balancer, formatMark } from '../../../../devices/driver.ts';
import { shopId, toAddress, toBalancer, toListener } from '../../../support/devices/alteon-world.ts';

const toService = (number: number, members: readonly string[], ports = [80]): Balancer =>
  toBalancer([], {
    id: { ...shopId, uid: `u${number}` },
    addresses: [toAddress(`10.9.${number >> 8}.${number & 255}`)],
    listeners: ports.map((port) => toListener(`tcp ${port}`, members)),
  });

/** Does all of it. What is told twice is done by the first time. */
function apply(unit: FakeHaproxy, ...all: readonly Balancer[]): string {
  const plan = () => planSteps('u', unit.read(), new Map(all.map((one) => [formatMark(one.id), one])));
  for (const { commands } of plan().steps) for (const command of commands) unit.run(command);
  const { steps, markToProblem } = plan();
  expect(steps).toEqual([]);
  return [...markToProblem.values()].map(({ kind, message }) => `${kind}: ${message}`).join();
}

const toMembers = (...texts: readonly string[]) => texts.map((text) => text.replace(/^(\d+)/, '10.1.0.1:$1'));

describe('a slot with four servers', () => {
  test.each([
    ['those that drain give theirs to those that serve', '2 3=0 4=0 5=0 6 7 8', '6=1 7=1 8=1 2=1', ''],
    ['those that drain keep theirs as long as there is room', '2 3=0 4=0 5', '2=1 3=0 4=0 5=1', ''],
    ['those that have left go first', '2 3=0 5 6', '2=1 3=0 5=1 6=1', ''],
    ['who drains and is not there gets what is left', '2=0 5=0 6=0 7', '2=0 5=0 6=0 7=1', ''],
    ['as many serve as fit, and all others drain', '2=0 5 6 7 8 9', '5=1 6=1 7=1 8=1', 'refused: u has 4'],
  ])('%s: %s', (_what, wanted, served, problem) => {
    const unit = new FakeHaproxy(2, 4);
    apply(unit, toService(1, toMembers('2', '3', '4')));
    expect(apply(unit, toService(1, toMembers(...wanted.split(' '))))).toContain(problem);
    const found = unit.listServers().map((text) => text.replace(/^10.1.0.1:/, ''));
    expect(found.toSorted()).toEqual(served.split(' ').toSorted());
  });
});

test('who cannot have all that it wants keeps what it has, and that is followed', () => {
  const unit = new FakeHaproxy(2, 4);
  const other = toService(2, toMembers('7'));
  expect(apply(unit, toService(1, toMembers('2')), other)).toBe('');
  expect(apply(unit, toService(1, toMembers('3'), [80, 81]), other)).toMatch(
    /^refused: u has 2 slots .* slots$/,
  );
  expect(unit.list('frontends')).toEqual(['10.9.0.1:80 vipnat_rr_1', '10.9.0.2:80 vipnat_rr_2']);
  expect(unit.listServers()).toEqual(['10.1.0.1:3=1']);
  const taken = { ...toService(1, toMembers('4')), addresses: other.addresses };
  // Another cluster's Service may be another tenant's: its name is not told.
  expect(apply(unit, taken)).toBe('foreign-changes: u has 10.9.0.2:80 for the cluster prod: remove it there');
  expect(unit.listServers()).toEqual(['10.1.0.1:4=1']);
  const unheard = { ...toService(1, toMembers('5')), addresses: [toAddress('10.8.0.1')] };
  expect(apply(unit, unheard, other)).toMatch(/: it does not listen at 10.8.0.1.*install its files again$/);
  expect(unit.listServers()).toEqual(['10.1.0.1:5=1']);
});

test('a new balancer of which something has no room gets nothing', () => {
  const unit = new FakeHaproxy(2, 4);
  expect(apply(unit, toService(1, toMembers('2', '3', '4', '5', '6')))).toContain('raise the option members');
  expect(apply(unit, toService(1, toMembers('2'), [80, 81, 82]))).toContain('raise the option slots');
  expect(unit.writes).toBe(0);
});

test('who is in a slot that is no more gets another one', () => {
  const unit = new FakeHaproxy(3, 4);
  apply(unit, toService(1, []), toService(2, []), toService(3, toMembers('2')));
  apply(unit, toService(1, []));
  for (const command of ['del map vipnat-owners.map vipnat_rr_1', 'del map vipnat-frontends.map 10.9.0.1:80'])
    unit.run(command);
  unit.resize(2);
  expect(apply(unit, toService(3, toMembers('2')))).toBe('');
  expect(unit.list('frontends')).toEqual(['10.9.0.2:80 vipnat_rr_2', '10.9.0.3:80 vipnat_rr_1']);
  expect(unit.list('owners').map((text) => text.split(' ')[0])).toEqual(['vipnat_rr_2', 'vipnat_rr_1']);
  expect(unit.listServers()).toEqual(['10.1.0.1:2=1']);
});

test('a plan for twice as many balancers is at most twice the work', () => {
  const measure = (count: number) => {
    const unit = new FakeHaproxy(count, 2);
    const all = Array.from({ length: count }, (_, at) => toService(at, toMembers('2', '3')));
    const wanted = new Map(all.map((one) => [formatMark(one.id), one]));
    for (const { commands } of planSteps('u', unit.read(), wanted).steps)
      commands.forEach((one) => unit.run(one));
    const content = unit.read();
    return countSteps(() => {
      expect(planSteps('u', content, wanted).steps).toEqual([]);
    });
  };
  expect(measure(500) / measure(250)).toBeLessThan(2.1);
});
