import { test, expect } from '@jest/globals';
import { brokenDrivers } from '../../support/devices/broken-drivers.ts';
import { EagerClock } from '../../support/devices/eager-clock.ts';
import { FakeDevice } from '../../support/devices/fake-device.ts';
import { createBroken } from '../../support/devices/broken-driver.ts';
import { runSuite, nameChecks } from '../../support/devices/run-suite.ts';
import { createFakeTarget, openFake } from '../../support/devices/fake-target.ts';

test.each(brokenDrivers)('a driver that $fault fails $check, and no other check', async (broken) => {
  const clock = new EagerClock();
  const device = new FakeDevice({ clock, capabilities: broken.capabilities ?? {} });
  const create = createBroken(broken, { device, clock, memory: new Set() });
  const results = await runSuite({
    ...createFakeTarget(device, clock),
    open: (cluster, context) => openFake(device, cluster, context, create),
  });
  expect(results.filter(({ outcome, name }) => outcome === 'failed' && name !== broken.check)).toEqual([]);
  expect(nameChecks(results, 'failed')).toEqual([broken.check]);
});
