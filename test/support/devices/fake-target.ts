import type { FakeDevice } from './fake-device.ts';
import type { DriverContext, CreateDriver, LoadBalancerDriver } from '../../../devices/driver.ts';
import { createFakeDriver, nameMemberObject } from './fake-driver.ts';
import type { Clock } from '../../../lib/clock.ts';
import type { ConformanceTarget, TargetActions, PendingChange } from '../../../devices/conformance/bench.ts';

/** Opens a driver of the fake for a cluster. */
export function openFake(
  device: FakeDevice,
  cluster: string,
  context: DriverContext,
  create: CreateDriver = createFakeDriver(device),
): LoadBalancerDriver {
  const name = 'fake';
  return create(
    { name, cluster, units: device.unitNames, credentials: null, ca: null, options: {} },
    context,
  );
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
    listObjects: soon(() => device.listObjects()),
    createForeign: soon(() => {
      device.putForeign('www', 'at 192.0.2.1');
      return {
        read: soon(() => device.read('www') ?? 'gone'),
        remove: soon(() => {
          device.deleteForeign('www');
        }),
      };
    }),
    changePending: soon(() => changePending(device)),
    openSession: ({ id, listeners: [listener] }) => {
      const member = listener?.members[0];
      if (listener === undefined || member === undefined) throw new RangeError('no member');
      const { isOpen, close } = device.openSession(nameMemberObject(id, listener, member));
      return Promise.resolve({ member, isOpen: soon(isOpen), close: soon(close) });
    },
  };
}

function onUnits(device: FakeDevice): TargetActions {
  const act = (what: 'switchRole' | 'restart' | 'forget' | 'loseNextAnswer') =>
    soon(() => {
      device[what]();
    });
  const set = (what: 'setSilent' | 'setRefusing') =>
    soon(() => {
      device[what](true);
      return soon(() => {
        device[what](false);
      });
    });
  return {
    ...{ switchRole: act('switchRole'), restart: act('restart'), forget: act('forget') },
    loseNextAnswer: act('loseNextAnswer'),
    ...{ disconnect: set('setSilent'), refuseWrites: set('setRefusing') },
    holdAnswers: soon(() => soon(device.hold())),
  };
}

function changePending(device: FakeDevice): PendingChange {
  device.changePending('www', 'at 192.0.2.2');
  return {
    isPending: soon(() => device.readPending('www') === 'at 192.0.2.2' && device.read('www') === null),
    revert: soon(() => {
      device.changePending('www', null);
    }),
  };
}

/** The fake does all at once; other devices take their time. */
function soon<Answer>(call: () => Answer): () => Promise<Answer> {
  return () => Promise.resolve(call());
}
