/** What a driver from elsewhere does wrong, and what becomes of its device. */
import { DeviceWorld } from '../../../support/fakes/device-world.ts';
import { makeDevice, makeDeviceService, makeSlice } from '../../../support/fakes/device-objects.ts';
import { afterEach, expect, test } from '@jest/globals';
import type { CreateDriver, LoadBalancerDriver } from '../../../../devices/driver.ts';
import { PlainDevice } from '../../../support/fakes/plain-device.ts';

const keys = ['apps/a', 'apps/b'];
let world: DeviceWorld;

afterEach(async () => {
  expect(await world.stop()).toEqual({ errors: [], pending: 0 });
});

/** A driver with such a mistake: calls of the Service `a`, or all reads, are these. */
function startWrong(wrong: (right: LoadBalancerDriver) => Partial<LoadBalancerDriver>): PlainDevice {
  const device = new PlainDevice();
  const createDriver: CreateDriver = (settings, context) => {
    const right = device.createDriver(settings, context);
    const parts = wrong(right);
    return {
      capabilities: { ...right.capabilities, changesAtOnce: 4 },
      list: parts.list ?? ((signal) => right.list(signal)),
      plan: (wanted, signal) => right.plan(wanted, signal),
      remove: (id, signal) => right.remove(id, signal),
      readState: parts.readState ?? ((signal) => right.readState(signal)),
      ensure: (wanted, signal) =>
        wanted.id.name === 'a' && parts.ensure ? parts.ensure(wanted, signal) : right.ensure(wanted, signal),
    };
  };
  const inventory = {
    devices: [makeDevice('d', { targets: 'pods', credentialsSecret: { name: 'vipnat-devices' } })],
    services: keys.map((key) => makeDeviceService(key, 'd')),
    endpointSlices: keys.map((key) => makeSlice(key, ['10.1.0.1', '10.1.0.2'])),
  };
  world = new DeviceWorld(inventory, { createDriver });
  world.objects.set('/api/v1/namespaces/vipnat-system/secrets/vipnat-devices', {
    data: { username: btoa('vipnat'), password: btoa('hunter2') },
  });
  return device;
}

const never = () => new Promise<never>(() => undefined);

test('whose call never ends holds up no other Service, and is told', async () => {
  startWrong(() => ({ ensure: never }));
  await world.clock.advance(600_000);
  world.put('endpointSlices', makeSlice('apps/b', ['10.1.0.9']));
  await world.clock.advance(1_100_000);
  expect(world.find('apps/b')).toMatchObject({ deviceStatus: 'serves' });
  expect(world.find('apps/a')?.problem?.message).toMatch(/two minutes/);
});

test('whose read never ends makes its device not ready', async () => {
  startWrong(() => ({ readState: never }));
  await world.clock.advance(200_000);
  expect(world.report).toMatchObject({ isReady: false, message: 'a call of its driver does not end' });
});

test('that ignores signals, also those that have ended before its call, goes on when its device answers again', async () => {
  let isSilent = false;
  const device = startWrong((right) => ({
    list: (signal) => (isSilent ? never() : right.list(signal)),
    ensure: (wanted, signal) => (isSilent ? never() : right.ensure(wanted, signal)),
  }));
  await world.clock.advance(295_000);
  isSilent = true;
  await world.clock.advance(7000);
  world.put('endpointSlices', makeSlice('apps/a', ['10.1.0.9']));
  await world.clock.advance(600_000);
  isSilent = false;
  await world.clock.advance(400_000);
  expect(device.listMembers()).toContain('10.1.0.9 1');
});

const login = { name: 'DeviceError', kind: 'unauthorized', message: 'login vipnat:hunter2 failed' };

test.each([
  [
    'of a class of its own',
    Object.assign(new Error(login.message), login),
    'Unauthorized',
    'login vipnat:*** failed',
  ],
  ['frozen', Object.freeze(Object.assign(new Error(), login)), 'Unauthorized', 'login vipnat:*** failed'],
  ['a text', login.message, 'Failed', 'login vipnat:*** failed'],
  ['with a header', `Basic ${btoa('vipnat:hunter2')}`, 'Failed', 'Basic ***'],
])('whose error is %s is read by its kind, without the password', async (_, error, reason, message) => {
  startWrong(() => ({
    // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- A driver may do so.
    readState: () => Promise.reject(error),
    ensure: () => Promise.resolve({ result: 'refused', why: 'hunter2 is wrong' }),
  }));
  await world.clock.advance(100_000);
  expect(world.report).toMatchObject({ isReady: false, reason, message });
  expect(JSON.stringify([world.report, world.find('apps/a')])).not.toContain('hunter2');
});

test('that does not say when it wants to be asked again is asked once a second', async () => {
  let calls = 0;
  startWrong(() => ({
    ensure: () => {
      calls += 1;
      return Promise.resolve({ result: 'running', why: 'it works' } as never);
    },
  }));
  await world.clock.advance(60_000);
  expect(calls).toBeLessThan(70);
});
