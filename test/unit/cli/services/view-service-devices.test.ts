import { makeDevice, makeDeviceService } from '../../../support/fakes/device-objects.ts';
import { ago } from '../../../support/fakes/service-view.ts';
import type { ServiceObjects } from '../../../../cli/services/view.ts';
import { makeCluster, tellServices, services } from '../../../support/doctor/services-host.ts';
import { test, expect } from '@jest/globals';

const say = (reason: string, message: string, status = 'False') =>
  makeDevice('edge', {}, {}, { status, reason, message });
const left = { finalizers: ['x', 'device.vipnat.io/gone'], deletionTimestamp: ago(5) };

async function find(parts: Partial<ServiceObjects>) {
  const cluster = { value: makeCluster({ pools: [], ...parts }) };
  const all = await tellServices(services({ cluster }));
  return all.filter(({ code, level }) => code.startsWith('device-') && level !== 'ok');
}

test.each<[string, Partial<ServiceObjects>, string, string, string, RegExp]>([
  [
    'is not ready',
    { devices: [say('Unreachable', 'No unit answers.')] },
    ...(['device-not-ready', 'fail', 'edge is not ready: Unreachable', /reason Unreachable: docs/] as const),
  ],
  [
    'has no unit that could take over',
    { devices: [say('NotInSync', 'u2 is behind.', 'True')] },
    ...(['device-not-ready', 'warn', 'u2 is behind', /vipnat services/] as const),
  ],
  [
    'works with credentials that are gone',
    { devices: [say('CredentialsUnread', 'There is no Secret.', 'True')] },
    ...(['device-not-ready', 'warn', 'There is no Secret', /reason CredentialsUnread: docs/] as const),
  ],
  [
    'was never looked at',
    { devices: [makeDevice('edge')] },
    ...(['device-not-ready', 'warn', 'no controller has looked', /logs -l/] as const),
  ],
  [
    'names a Secret that is not there',
    { devices: [say('SecretMissing', 'there is no Secret vipnat-system/x. Create it.')] },
    ...([
      'device-secret-missing',
      'fail',
      'no Secret vipnat-system/x',
      /create secret generic NAME/,
    ] as const),
  ],
  [
    'is not there, and a Service names it',
    { services: [makeDeviceService('shop/web', 'gone', { metadata: { finalizers: [] } })] },
    ...([
      'device-missing',
      'fail',
      'no LoadBalancerDevice gone: shop/web',
      /get loadbalancerdevices/,
    ] as const),
  ],
  [
    'is gone, and a Service has its finalizer',
    { services: [makeDeviceService('shop/web', 'gone', { metadata: left })] },
    ...([
      'device-finalizer-left',
      'fail',
      'shop/web has the finalizer',
      /"test","path":"\/metadata\/finalizers\/1"/,
    ] as const),
  ],
])('a device that %s is told', async (...[, parts, code, level, title, remedy]) => {
  const told = await find(parts);
  expect(told).toMatchObject([{ code, level, title: expect.stringContaining(title) }]);
  const lines = told.flatMap((one) => ('remedy' in one ? one.remedy : []));
  expect(lines.join('\n')).toMatch(remedy);
  expect(lines.filter((line) => !line.startsWith('# '))).toEqual([]);
});

test('nothing is said of a device that is well, nor without devices', async () => {
  const devices = [makeDevice('edge', {}, {}, {})];
  expect(await find({ devices, services: [makeDeviceService('shop/web', 'edge')] })).toEqual([]);
  expect(await find({})).toEqual([]);
});
