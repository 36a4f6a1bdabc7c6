import { test, expect } from '@jest/globals';
import type { DeviceReport } from '../../../../controller/cache/known.ts';
import { makeDeviceCache, makeDevice } from '../../../support/fakes/device-objects.ts';
import { nextStep } from '../../../../controller/kinds/kinds.ts';
import { nowMs } from '../../../support/fakes/service-objects.ts';

test('a status that says what is known is not written again, though the API drops its nulls', () => {
  const after: DeviceReport = {
    units: [{ unit: 'u1', role: 'silent', isInSync: null, why: '' }],
    draining: [{ service: 'apps/a', member: '10.1.0.1:80', since: '2027-01-15T08:00:00Z', sessions: null }],
    ...{ generation: 1, balancers: 1, foreignChanges: [], isReady: true, reason: 'NotInSync', message: 'm' },
  };
  const decide = (status: object | null) => {
    const cache = makeDeviceCache({
      devices: [makeDevice('d', {}, {}, status === null ? null : { ...status })],
    });
    cache.take('deviceReports', { key: 'd', after });
    return nextStep({ kind: 'LoadBalancerDevice', key: 'd' }, cache.view(nowMs));
  };
  const step = decide(null);
  if (step.does !== 'write') throw new Error(step.does);
  const { status } = JSON.parse(
    JSON.stringify(step.write.body, (_key, value: unknown) => value ?? undefined),
  ) as {
    readonly status: object;
  };
  expect(decide(status).does).not.toBe('write');
});
