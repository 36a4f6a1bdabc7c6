/** The conformance suite of drivers, on the driver for Alteon and a simulated pair. */
import { jest, afterEach, test, expect } from '@jest/globals';
import { stopWorlds, startWorld, type AlteonWorld } from '../support/devices/alteon-world.ts';
import { byExtent } from '../support/jest/extent.ts';
import { runSuite, nameChecks } from '../support/devices/run-suite.ts';
import type { ConformanceTarget } from '../../devices/conformance/bench.ts';
import { createAlteon } from '../../devices/alteon/driver.ts';

// Tens of thousands of requests.
jest.setTimeout(900_000);

afterEach(stopWorlds);

/** A pair takes a quarter of an hour. */
test.each<1 | 2>(byExtent<(1 | 2)[]>({ gate: [], full: [1], long: [1, 2] }))(
  'the suite is green with units: %j',
  async (units) => {
    const world = await startWorld({ units });
    const results = await runSuite(toTarget(world));
    expect(results.filter(({ outcome }) => outcome === 'failed')).toEqual([]);
    expect(nameChecks(results, 'passed').length).toBeGreaterThan(25);
    expect(world.device.readServed()).toEqual([]);
  },
);

function toTarget({ device, clock }: AlteonWorld): ConformanceTarget {
  const { urls, credentials, ca } = device;
  const settings = { name: 'edge', units: urls, credentials, ca, options: {} };
  const soon = (act: () => void) => () => {
    act();
    return Promise.resolve();
  };
  const switchRole = soon(() => {
    // The standby has what it was given by then.
    device.settle();
    device.switchRoles();
  });
  return {
    clock,
    open: (cluster, context, identity) => createAlteon({ ...settings, cluster, identity }, context),
    actions: {
      ...(urls.length === 1 ? {} : { switchRole }),
      restart: soon(() => {
        device.activeUnit.restart();
      }),
      loseNextAnswer: soon(() => {
        device.faults.lostAnswers = 1;
      }),
      disconnect: () => {
        for (const at of device.units.keys()) device.unresponsive.add(at);
        return Promise.resolve(
          soon(() => {
            device.unresponsive.clear();
          }),
        );
      },
    },
  };
}
