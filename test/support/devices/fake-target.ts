import type { FakeDevice } from './fake-device.ts';
import {
  type Balancer,
  type DriverContext,
  type CreateDriver,
  type LoadBalancerDriver,
  formatMember,
} from '../../../devices/driver.ts';
import { createFakeDriver, nameMemberObject, toOwned } from './fake-driver.ts';
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

/** What a device really does with what it has in force. */
export type Serve = (balancers: readonly Balancer[]) => readonly Balancer[];

/** The fake as the suite tries it, with all that can happen to it. */
export function createFakeTarget(
  device: FakeDevice,
  clock: Clock,
  serve: Serve = (balancers) => balancers,
): ConformanceTarget {
  const busy = new Set<string>();
  return {
    clock,
    open: (cluster, context) => openFake(device, cluster, context),
    actions: { ...listActions(device, busy), connect: createClient(device, serve, busy) },
  };
}

/** Connections reach members in turn, by their weights; with the method hash or affinity, always the first; with lc, those that are not busy. */
function createClient(
  device: FakeDevice,
  serve: Serve,
  busy: ReadonlySet<string>,
): NonNullable<TargetActions['connect']> {
  let turn = 0;
  return ({ id, addresses: [at] }, { port }) => {
    const there = serve(toOwned(device.running, id.cluster, null).map(({ balancer }) => balancer));
    const isHere = ({ addresses }: Balancer) => addresses.some(({ text }) => text === at?.text);
    const names = there.filter(isHere).flatMap(({ listeners, method, affinityS }) => {
      const listener = listeners.find((one) => one.protocol === 'tcp' && one.port === port);
      const shares = listener?.members.flatMap((one) => Array<string>(one.weight).fill(formatMember(one)));
      return choose(shares ?? [], { method, affinityS }, busy);
    });
    turn += 1;
    return Promise.resolve(names[turn % names.length] ?? null);
  };
}

function choose(
  shares: readonly string[],
  { method, affinityS }: Pick<Balancer, 'method' | 'affinityS'>,
  busy: ReadonlySet<string>,
) {
  if (method === 'hash' || affinityS !== null) return shares.slice(0, 1);
  const idle = shares.filter((name) => !busy.has(name));
  return method === 'lc' && idle.length > 0 ? idle : shares;
}

function listActions(device: FakeDevice, busy: Set<string>): TargetActions {
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
      busy.add(formatMember(member));
      const end = () => {
        busy.delete(formatMember(member));
        close();
      };
      return Promise.resolve({ member, isOpen: soon(isOpen), close: soon(end) });
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
