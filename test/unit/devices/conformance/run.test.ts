import { EagerClock } from '../../../support/devices/eager-clock.ts';
import { FakeDevice } from '../../../support/devices/fake-device.ts';
import { beforeEach, test, expect } from '@jest/globals';
import { listChecks } from '../../../../devices/conformance/steady-checks.ts';
import type { LoadBalancerDriver } from '../../../../devices/driver.ts';
import { type ConformanceOptions, runConformance } from '../../../../devices/conformance/run.ts';
import { createFakeTarget, openFake } from '../../../support/devices/fake-target.ts';
import { spoil } from '../../../support/devices/broken-driver.ts';
import { signal } from '../../../support/devices/alteon-world.ts';

let clock: EagerClock;
let device: FakeDevice;
beforeEach(() => {
  clock = new EagerClock();
  device = new FakeDevice({ clock });
});

const choose = (...names: string[]) => listChecks().filter(({ name }) => names.includes(name));

async function run(
  wrong: (right: LoadBalancerDriver) => Partial<LoadBalancerDriver>,
  options: Partial<ConformanceOptions> & Pick<ConformanceOptions, 'checks'>,
) {
  const target = createFakeTarget(device, clock);
  return await runConformance(
    {
      ...target,
      open: (cluster, context) => {
        const right = openFake(device, cluster, context);
        return spoil(right, wrong(right));
      },
    },
    { signal, lastSignal: signal, takesLeftovers: false, onResult: () => undefined, ...options },
  );
}

test('a driver that never ends fails the check, and the others run', async () => {
  const { results } = await run(
    (right) => ({
      plan: (wanted, signal) =>
        wanted.id.name === 'web' ? new Promise(() => undefined) : right.plan(wanted, signal),
    }),
    { checks: choose('ensure-list', 'remove-unknown') },
  );
  expect(results).toMatchObject([
    {
      name: 'ensure-list',
      outcome: 'failed',
      why: expect.stringMatching(/^plan has not ended after 120 s; its last call: "read/),
    },
    { name: 'remove-unknown', outcome: 'passed' },
  ]);
  expect(device.listObjects()).toEqual([]);
});

test('what a failed check has made is removed, also where list fails now and then', async () => {
  let lists = 0;
  const { results, interruption } = await run(
    (right) => ({
      list: (signal) => {
        lists += 1;
        // The first two see that the device is empty.
        return lists > 2 && lists % 3 > 0 ? Promise.reject(new Error('a bug')) : right.list(signal);
      },
    }),
    { checks: choose('ensure-list') },
  );
  expect(results).toMatchObject([{ outcome: 'failed', why: 'list rejects: a bug' }]);
  expect(interruption).toBeNull();
  expect(device.listObjects()).toEqual([]);
});

test('a driver that cannot remove ends the suite: the next check would not start with an empty device', async () => {
  const report = await run(() => ({ remove: () => Promise.resolve({ result: 'done' }) }), {
    checks: choose('ensure-list', 'udp'),
  });
  expect(report.results.map(({ name, outcome }) => [name, outcome])).toEqual([['ensure-list', 'failed']]);
  expect(report.interruption).toBe('remove is done, and list still has "web"');
});
