import { FakeClock } from '../../support/fakes/clock.ts';
import { RelayPaths } from '../../../balancer/decide.ts';
import { test, expect } from '@jest/globals';

function start() {
  const clock = new FakeClock();
  const host = {
    routed: [] as string[],
    asked: [] as (readonly string[])[],
    changes: [] as (readonly string[])[],
  };
  const findRouted = (addresses: readonly string[]) => {
    host.asked.push(addresses);
    return Promise.resolve(addresses.filter((address) => host.routed.includes(address)));
  };
  const ways = new RelayPaths({ clock, findRouted }, (services) => host.changes.push(services));
  return { clock, host, ways };
}

test('an address is asked for at once, and again each minute; only Services with another way are told', async () => {
  const { clock, host, ways } = start();
  host.routed = ['203.0.113.9'];
  ways.watch('default/web', ['10.244.2.2']);
  ways.watch('default/far', ['203.0.113.9', '10.244.2.2']);
  await clock.advance(10);
  expect([[...ways.routed], host.changes]).toEqual([['203.0.113.9'], [['default/far']]]);
  await clock.advance(59_000);
  expect(host.asked).toHaveLength(1);
  host.routed = [];
  await clock.advance(2000);
  expect([[...ways.routed], host.changes.slice(1)]).toEqual([[], [['default/far']]]);
});

test('nothing is asked where nobody wants to know, nor after the end', async () => {
  const { clock, host, ways } = start();
  ways.watch('default/web', ['10.244.2.2']);
  await clock.advance(10);
  ways.watch('default/web', []);
  await clock.advance(200_000);
  expect(host.asked).toEqual([['10.244.2.2'], []]);
  ways.watch('default/web', ['10.244.2.3']);
  ways.stop();
  await clock.advance(200_000);
  expect([host.asked.length, clock.pending]).toEqual([2, 0]);
});
