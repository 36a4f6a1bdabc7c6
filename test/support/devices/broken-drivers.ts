import { type BrokenDriver, send, findOwned, mapListeners, findPlace, rejection } from './broken-driver.ts';
import {
  formatMark,
  DeviceError,
  type Balancer,
  type Capabilities,
  formatMember,
  type Progress,
  type Owned,
} from '../../../devices/driver.ts';
import { testClusters } from '../../../devices/conformance/bench.ts';
import type { FakeDevice } from './fake-device.ts';

const never = new AbortController().signal;

/** Each with the check that is meant for it. Many are faults of published controllers. */
export const brokenDrivers: readonly BrokenDriver[] = [
  broken('ensure-again', 'writes what is there already', (parts) => ({
    ensure: async (wanted, signal) => {
      const progress = await parts.right.ensure(wanted, signal);
      const [name = ''] = parts.device.listRunning().filter((one) => one.startsWith(formatMark(wanted.id)));
      const value = parts.device.read(name);
      if (value !== null) await send(parts, { ask: 'put', name, value }, signal);
      return progress;
    },
  })),
  broken('remove-unknown', 'cannot remove what it does not know', ({ right, memory }) => ({
    ensure: (wanted, signal) => {
      memory.add(formatMark(wanted.id));
      return right.ensure(wanted, signal);
    },
    remove: (id, signal) =>
      memory.has(formatMark(id))
        ? right.remove(id, signal)
        : Promise.resolve({ result: 'failed', why: 'there is no such balancer' }),
  })),
  broken('plan-writes-nothing', 'makes what it plans', ({ right }) => ({
    plan: async (wanted, signal) => {
      const changes = await right.plan(wanted, signal);
      if (changes.length > 0) await right.ensure(wanted, signal);
      return changes;
    },
  })),
  broken('state', 'says that both units are active', ({ right }) => ({
    readState: async (signal) => {
      const { units, foreignChanges } = await right.readState(signal);
      return { units: units.map((unit) => ({ ...unit, role: 'active' })), foreignChanges };
    },
  })),
  broken('concurrent-reads', 'cannot list while it changes', ({ right, memory }) => ({
    ensure: async (wanted, signal) => {
      memory.add('changing');
      return await right.ensure(wanted, signal).finally(() => memory.delete('changing'));
    },
    list: (signal) =>
      memory.has('changing')
        ? Promise.reject(new DeviceError('nonsense', 'a table is locked'))
        : right.list(signal),
  })),
  broken('change-member-port', 'knows a member by its address alone', (parts) => ({
    ensure: async (wanted, signal) => {
      const former = await findOwned(parts, wanted, signal);
      return await parts.right.ensure(
        mapListeners(wanted, (listener) => {
          const [one, ...others] = listener.members;
          const [old] = findPlace(former, listener)?.members ?? [];
          const isSame = others.length === 0 && one !== undefined && old?.address.text === one.address.text;
          return isSame ? { ...listener, members: [old] } : listener;
        }),
        signal,
      );
    },
  })),
  ignoringChange('method', 'change-method'),
  ignoringChange('affinityS', 'change-affinity'),
  broken('change-weights', 'cuts weights at 100', ({ right }) => ({
    ensure: (wanted, signal) =>
      right.ensure(
        mapListeners(wanted, (listener) => ({
          ...listener,
          members: listener.members.map((one) => ({ ...one, weight: Math.min(one.weight, 100) })),
        })),
        signal,
      ),
  })),
  broken('change-weight-zero', 'lists no member that drains', ({ right }) => ({
    list: async (signal) =>
      changeOwned(await right.list(signal), (balancer) =>
        mapListeners(balancer, (listener) => ({
          ...listener,
          members: listener.members.filter(({ weight }) => weight > 0),
        })),
      ),
  })),
  broken('many-members', 'reads one page of a table', ({ right }) => ({
    list: async (signal) =>
      changeOwned(await right.list(signal), (balancer) =>
        mapListeners(balancer, (listener) => ({ ...listener, members: listener.members.slice(0, 32) })),
      ),
  })),
  broken('longest-names', 'cuts long names', ({ right }) => {
    const cut = (id: Balancer['id']) =>
      formatMark(id).length > 200 ? { ...id, uid: `${id.uid.slice(0, -1)}0` } : id;
    return {
      plan: (wanted, signal) => right.plan({ ...wanted, id: cut(wanted.id) }, signal),
      ensure: (wanted, signal) => right.ensure({ ...wanted, id: cut(wanted.id) }, signal),
      remove: (id, signal) => right.remove(cut(id), signal),
    };
  }),
  broken('ipv6', 'lists addresses of IPv6 in a form of its own', ({ right }) => ({
    list: async (signal) =>
      changeOwned(await right.list(signal), (balancer) => ({
        ...balancer,
        addresses: balancer.addresses.map((one) => ({ ...one, text: one.text.replace('::', ':0:') })),
      })),
  })),
  broken('udp', 'takes UDP for TCP', ({ right }) => ({
    list: async (signal) =>
      changeOwned(await right.list(signal), (balancer) =>
        mapListeners(balancer, (listener) => ({ ...listener, protocol: 'tcp' })),
      ),
  })),
  broken('same-name', 'knows a balancer by its name alone', ({ right }) => ({
    remove: async (id, signal) => {
      // The longest names are another check's.
      const isSame = ({ name }: Balancer['id']) => name === id.name && name.length < 63;
      for (const { balancer } of await right.list(signal))
        if (isSame(balancer.id)) await right.remove(balancer.id, signal);
      return await right.remove(id, signal);
    },
  })),
  broken('two-clusters', 'lists what has a name that begins as its own', ({ right, settings, open }) => ({
    list: async (signal) => [
      ...(await right.list(signal)),
      ...(settings.cluster === testClusters[0] ? await open({ cluster: testClusters[1] }).list(signal) : []),
    ],
  })),
  broken('foreign-objects', 'deletes what it does not know', (parts) => ({
    ensure: async (wanted, signal) => {
      const foreign = parts.device.listRunning().filter((name) => !name.startsWith('vipnat_'));
      for (const name of foreign) await send(parts, { ask: 'delete', name }, signal);
      return await parts.right.ensure(wanted, signal);
    },
  })),
  broken('crash-create', 'leaves an object where a creation is cut off', (parts) => ({
    ensure: async (wanted, signal) => {
      if ((await findOwned(parts, wanted, signal)) !== null) return await parts.right.ensure(wanted, signal);
      await send(parts, { ask: 'put', name: 'lock', value: 'taken' }, signal);
      await parts.right.ensure(wanted, signal);
      await send(parts, { ask: 'delete', name: 'lock' }, signal);
      return await parts.right.ensure(wanted, signal);
    },
  })),
  broken('successor-first', 'removes members before it adds others', (parts) => ({
    ensure: async (wanted, signal) => {
      const former = await findOwned(parts, wanted, signal);
      const fewer = mapListeners(wanted, (listener) => {
        const there = findPlace(former, listener)?.members.map(formatMember);
        const members = listener.members.filter((one) => there?.includes(formatMember(one)) ?? true);
        return { ...listener, members };
      });
      const progress = await parts.right.ensure(fewer, signal);
      return progress.result === 'done' ? await parts.right.ensure(wanted, signal) : progress;
    },
  })),
  broken(
    'whole-commit',
    'applies listener by listener',
    (parts) => ({
      ensure: async (wanted, signal) => {
        const isNew = (await findOwned(parts, wanted, signal)) === null;
        const first = { ...wanted, listeners: wanted.listeners.slice(0, 1) };
        const progress: Progress = isNew ? await parts.right.ensure(first, signal) : { result: 'done' };
        return progress.result === 'done' ? await parts.right.ensure(wanted, signal) : progress;
      },
    }),
    { atomicCommit: true, pendingChanges: true },
  ),
  broken('before-call', 'makes a failure of whatever beforeCall throws', ({ right }) => ({
    ensure: (wanted, signal) =>
      right.ensure(wanted, signal).catch((error: unknown) => ({ result: 'failed', why: String(error) })),
  })),
  broken('abort', 'goes on after its signal', ({ right, clock }) => ({
    ensure: (wanted, signal) => {
      const late = new AbortController();
      signal.addEventListener('abort', () => {
        clock.schedule(10_000, () => {
          late.abort();
        });
      });
      return right.ensure(wanted, late.signal);
    },
  })),
  broken('abort-waiting', 'waits for an answer whatever its signal says', ({ open, context }) => ({
    ensure: (wanted, signal) => {
      const beforeCall = (call: string) => {
        signal.throwIfAborted();
        return context.beforeCall(call);
      };
      return open({ context: { ...context, beforeCall } }).ensure(wanted, never);
    },
  })),
  broken('drain', 'cuts the connections of a member that drains', (parts) => ({
    ensure: async (wanted, signal) => {
      const former = await findOwned(parts, wanted, signal);
      const serving = mapListeners(wanted, (listener) => {
        const old = findPlace(former, listener)?.members ?? [];
        const isCut = (name: string) => old.some((one) => formatMember(one) === name && one.weight > 0);
        const members = listener.members.filter((one) => one.weight > 0 || !isCut(formatMember(one)));
        return { ...listener, members };
      });
      await parts.right.ensure(serving, signal);
      return await parts.right.ensure(wanted, signal);
    },
  })),
  broken('same-cluster-name', 'takes all of the name for its own', () => ({}), { identity: true }),
  broken('failover', 'does not ask who is active after its changes', ({ right }) => ({
    ensure: async (wanted, signal) => {
      const progress = await right.ensure(wanted, signal);
      const isElsewhere = progress.result === 'failed' && progress.why.includes('is active now');
      return isElsewhere ? { result: 'done' } : progress;
    },
  })),
  // The units of a pair copy what they save, so failover would find it, too.
  broken(
    'restart',
    'does not save',
    ({ open, device }) => {
      const call: FakeDevice['call'] = async (unit, request, signal) => {
        const answer = await device.call(unit, request.ask === 'save' ? { ask: 'role' } : request, signal);
        return { ...answer, isSaved: true };
      };
      const unsaved = open({
        device: new Proxy(device, {
          get: (target, key) => (key === 'call' ? call : (Reflect.get(target, key, target) as unknown)),
        }),
      });
      return { ensure: (wanted, signal) => unsaved.ensure(wanted, signal) };
    },
    { pair: false },
  ),
  broken('lost-answer', 'takes a lost answer for a good one', ({ right }) => ({
    ensure: async (wanted, signal) => {
      const progress = await right.ensure(wanted, signal);
      const isLost = progress.result === 'failed' && progress.why.includes('closed the connection');
      return isLost ? { result: 'done' } : progress;
    },
  })),
  broken('refusal', 'rejects where the device refuses', ({ right }) => ({
    ensure: async (wanted, signal) => {
      const progress = await right.ensure(wanted, signal);
      if (progress.result === 'refused') throw new DeviceError('refused', rejection);
      return progress;
    },
  })),
  broken('unreachable', 'lists nothing where no unit answers', ({ right }) => ({
    list: (signal) =>
      right.list(signal).catch((error: unknown) => {
        if (error instanceof DeviceError) return [];
        throw error;
      }),
  })),
  broken(
    'pending-changes',
    'reverts what other users changed',
    ({ right, device }) => ({
      ensure: (wanted, signal) => {
        device.changePending('www', device.read('www'));
        return right.ensure(wanted, signal);
      },
    }),
    { atomicCommit: true, pendingChanges: true },
  ),
];

function broken(
  check: string,
  fault: string,
  breakIt: BrokenDriver['breakIt'],
  capabilities: Partial<Capabilities> = {},
): BrokenDriver {
  return { check, fault, breakIt, capabilities };
}

/** Does not see a change of this alone. */
function ignoringChange(key: 'method' | 'affinityS', check: string): BrokenDriver {
  return broken(check, `compares all but ${key}`, (parts) => ({
    ensure: async (wanted, signal) => {
      const former = await findOwned(parts, wanted, signal);
      const same = former === null ? wanted : { ...wanted, [key]: former[key] };
      const isAlone = former !== null && (await parts.right.plan(same, signal)).length === 0;
      return isAlone ? { result: 'done' } : await parts.right.ensure(wanted, signal);
    },
  }));
}

function changeOwned(owned: readonly Owned[], change: (balancer: Balancer) => Balancer): readonly Owned[] {
  return owned.map((one) => ({ ...one, balancer: change(one.balancer) }));
}
