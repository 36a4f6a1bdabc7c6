import type { Capabilities } from '../../../devices/driver.ts';
import { describe, test, expect } from '@jest/globals';
import { type FakeDeviceOptions, FakeDevice } from '../../support/devices/fake-device.ts';
import { EagerClock } from '../../support/devices/eager-clock.ts';
import { runSuite, nameChecks } from '../../support/devices/run-suite.ts';
import { createFakeTarget } from '../../support/devices/fake-target.ts';
import { listChecks } from '../../../devices/conformance/steady-checks.ts';

const few: Partial<Capabilities> = {
  ...{ methods: ['rr'], weights: false, drain: false, sessions: false, affinity: false },
  ...{ ipv6: false, udp: false, pair: false },
};

describe('the suite is green on the fake', () => {
  test.each<[string, Omit<FakeDeviceOptions, 'clock'>, readonly string[]]>([
    ['that can all but commit', {}, ['same-cluster-name', 'whole-commit', 'pending-changes']],
    [
      'that commits at last',
      { capabilities: { atomicCommit: true, pendingChanges: true }, applyMs: 700, latencyMs: 20 },
      ['same-cluster-name'],
    ],
    [
      'that can little',
      { capabilities: few },
      [
        ...['change-method', 'change-affinity', 'change-weights', 'change-weight-zero', 'ipv6'],
        ...[
          'udp',
          'same-cluster-name',
          'drain',
          'whole-commit',
          'failover',
          'failover-remove',
          'pending-changes',
        ],
      ],
    ],
  ])('%s', async (_, options, notRun) => {
    const clock = new EagerClock();
    const device = new FakeDevice({ clock, ...options });
    const results = await runSuite(createFakeTarget(device, clock));
    expect(results.filter(({ outcome }) => outcome === 'failed')).toEqual([]);
    expect(nameChecks(results, 'not run')).toEqual(notRun);
    expect(results).toHaveLength(listChecks().length);
    expect(device.listObjects()).toEqual([]);
  });
});
