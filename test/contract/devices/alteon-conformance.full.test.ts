/** The conformance suite of drivers, on the driver for Alteon and a simulated pair. */
import { afterEach, expect, test } from '@jest/globals';
import { createAlteon } from '../../../lib/devices/alteon/alteon.ts';
import { type ConformanceTarget } from '../../../lib/devices/conformance/target.ts';
import { startWorld, stopWorlds, type AlteonWorld } from '../../support/devices/alteon-world.ts';
import { runSuite } from '../../support/devices/run-suite.ts';

afterEach(stopWorlds);

test.each([{ units: 2 }, { units: 1 }] as const)('is green: %j', async (options) => {
  const world = await startWorld(options);
  const results = await runSuite(toTarget(world));
  expect(results.filter(({ outcome }) => outcome === 'failed')).toEqual([]);
  expect(results.filter(({ outcome }) => outcome === 'not run').map(({ name }) => name)).toEqual([]);
  expect(world.device.readServed()).toEqual([]);
});

function toTarget({ device, clock }: AlteonWorld): ConformanceTarget {
  const { urls: units, credentials, ca } = device;
  const soon = (act: () => void) => () => {
    act();
    return Promise.resolve();
  };
  return {
    clock,
    open: (cluster, context) =>
      createAlteon({ name: 'edge', cluster, units, credentials, ca, options: {} }, context),
    actions: {
      ...(units.length === 1
        ? {}
        : {
            switchRole: soon(() => {
              device.switchRoles();
            }),
          }),
      restart: soon(() => {
        device.activeUnit.restart();
      }),
      silence: () => {
        for (const at of device.units.keys()) device.silent.add(at);
        return Promise.resolve(
          soon(() => {
            device.silent.clear();
          }),
        );
      },
    },
  };
}
