import {
  type ConformanceTarget,
  type PendingChange,
  type TargetActions,
} from '../../../lib/devices/conformance/target.ts';
import { type Clock } from '../../../lib/control/clock.ts';
import { type CreateDriver, type DriverContext, type LoadBalancerDriver } from '../../../lib/devices/driver.ts';
import { type FakeDevice } from './fake-device.ts';
import { createFakeDriver, nameMemberObject } from './fake-driver.ts';

/** Opens a driver of the fake for a cluster. */
export function openFake(
  device: FakeDevice,
  cluster: string,
  context: DriverContext,
  create: CreateDriver = createFakeDriver(device),
): LoadBalancerDriver {
  const settings = { name: 'fake', cluster, units: device.unitNames, credentials: null, ca: null, options: {} };
  return create(settings, context);
}

/** The fake as the suite tries it, with all that can happen to it. */
export function createFakeTarget(device: FakeDevice, clock: Clock): ConformanceTarget {
  return {
    clock,
    open: (cluster, context) => openFake(device, cluster, context),
    actions: listActions(device),
  };
}

function listActions(device: FakeDevice): TargetActions {
  return {
    ...onUnits(device),
    listObjects: () => Promise.resolve(device.listObjects()),
    createForeign: () => {
      device.putForeign('www', 'at 192.0.2.1');
      return Promise.resolve({
        read: () => Promise.resolve(device.read('www') ?? 'gone'),
        remove: () => {
          device.deleteForeign('www');
          return Promise.resolve();
        },
      });
    },
    changePending: () => Promise.resolve(changePending(device)),
    openSession: ({ id, listeners: [listener] }) => {
      const member = listener?.members[0];
      if (listener === undefined || member === undefined) throw new RangeError('no member');
      const { isOpen, close } = device.openSession(nameMemberObject(id, listener, member));
      return Promise.resolve({
        member,
        isOpen: () => Promise.resolve(isOpen()),
        close: () => Promise.resolve(close()),
      });
    },
  };
}

function onUnits(device: FakeDevice): TargetActions {
  return {
    switchRole: () => Promise.resolve(device.switchRole()),
    restart: () => Promise.resolve(device.restart()),
    forget: () => Promise.resolve(device.forget()),
    loseNextAnswer: () => Promise.resolve(device.loseNextAnswer()),
    silence: () => {
      device.setSilent(true);
      return Promise.resolve(() => Promise.resolve(device.setSilent(false)));
    },
    refuseWrites: () => {
      device.setRefusing(true);
      return Promise.resolve(() => Promise.resolve(device.setRefusing(false)));
    },
    holdAnswers: () => {
      const release = device.hold();
      return Promise.resolve(() => Promise.resolve(release()));
    },
  };
}

function changePending(device: FakeDevice): PendingChange {
  device.changePending('www', 'at 192.0.2.2');
  return {
    isPending: () => Promise.resolve(device.readPending('www') === 'at 192.0.2.2' && device.read('www') === null),
    revert: () => Promise.resolve(device.changePending('www', null)),
  };
}
