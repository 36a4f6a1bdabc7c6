import { test, expect } from '@jest/globals';
import { brokenDrivers } from '../../support/devices/broken-drivers.ts';
import { EagerClock } from '../../support/devices/eager-clock.ts';
import { FakeDevice } from '../../support/devices/fake-device.ts';
import { createBroken } from '../../support/devices/broken-driver.ts';
import { runSuite } from '../../support/devices/run-suite.ts';
import type { DriverContext } from '../../../devices/driver.ts';
import { createFakeTarget, openFake } from '../../support/devices/fake-target.ts';

test.each(brokenDrivers)('a driver that $fault fails $checks, and no other check', async (broken) => {
  const {
    checks,
    message,
    capabilities = {},
    applyMs = 0,
    serve,
    isEverywhere = serve !== undefined,
  } = broken;
  const clock = new EagerClock();
  const device = new FakeDevice({ clock, capabilities, applyMs });
  const create = createBroken(broken, { device, clock, memory: new Set() });
  const { actions, ...right } = createFakeTarget(device, clock, serve?.());
  const { connect, ...others } = actions ?? {};
  const target = {
    ...right,
    open: (cluster: string, context: DriverContext) => openFake(device, cluster, context, create),
    actions: { ...others, ...(broken.isBlind === true || connect === undefined ? {} : { connect }) },
  };
  const results = await runSuite(target, isEverywhere ? checks : undefined);
  const failed = results.filter((result) => result.outcome === 'failed');
  expect(failed.map(({ name }) => name).join(' ')).toBe(checks);
  expect(failed[0]?.why).toContain(message);
});
