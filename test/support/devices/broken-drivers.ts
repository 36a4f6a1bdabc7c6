import {
  type BrokenDriver,
  send,
  findOwned,
  mapListeners,
  findPlace,
  rejection,
  type BrokenParts,
} from './broken-driver.ts';
import {
  formatMark,
  DeviceError,
  type Balancer,
  formatMember,
  type Progress,
  type Owned,
} from '../../../devices/driver.ts';
import { testClusters } from '../../../devices/conformance/bench.ts';
import type { FakeDevice } from './fake-device.ts';

const never = new AbortController().signal;

/** Each with the check that is meant for it. Many are faults of published controllers. */
export const brokenDrivers: readonly BrokenDriver[] = [
  {
    fault: 'writes what is there already',
    check: 'ensure-again',
    breakIt: (parts) => ({
      ensure: async (wanted, signal) => {
        const progress = await parts.right.ensure(wanted, signal);
        const [name = ''] = parts.device.listRunning().filter((one) => one.startsWith(formatMark(wanted.id)));
        const value = parts.device.read(name);
        if (value !== null) await send(parts, { ask: 'put', name, value }, signal);
        return progress;
      },
    }),
  },
  {
    fault: 'cannot remove what it does not know',
    check: 'remove-unknown',
    breakIt: ({ right, memory }) => ({
      ensure: (wanted, signal) => {
        memory.add(formatMark(wanted.id));
        return right.ensure(wanted, signal);
      },
      remove: (id, signal) =>
        memory.has(formatMark(id))
          ? right.remove(id, signal)
          : Promise.resolve({ result: 'failed', why: 'there is no such balancer' }),
    }),
  },
  {
    fault: 'makes what it plans',
    check: 'plan-writes-nothing',
    breakIt: ({ right }) => ({
      plan: async (wanted, signal) => {
        const changes = await right.plan(wanted, signal);
        if (changes.length > 0) await right.ensure(wanted, signal);
        return changes;
      },
    }),
  },
  {
    fault: 'says that both units are active',
    check: 'state',
    breakIt: ({ right }) => ({
      readState: async (signal) => {
        const { units, foreignChanges } = await right.readState(signal);
        return { units: units.map((unit) => ({ ...unit, role: 'active' })), foreignChanges };
      },
    }),
  },
  {
    fault: 'cannot list while it changes',
    check: 'concurrent-reads',
    breakIt: ({ right, memory }) => ({
      ensure: async (wanted, signal) => {
        memory.add('changing');
        return await right.ensure(wanted, signal).finally(() => memory.delete('changing'));
      },
      list: (signal) =>
        memory.has('changing')
          ? Promise.reject(new DeviceError('nonsense', 'a table is locked'))
          : right.list(signal),
    }),
  },
  {
    fault: 'knows a member by its address alone',
    check: 'change-member-port',
    breakIt: (parts) => ({
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
    }),
  },
  ignoringChange('method', 'change-method'),
  ignoringChange('affinityS', 'change-affinity'),
  {
    fault: 'cuts weights at 100',
    check: 'change-weights',
    breakIt: ({ right }) => ({
      ensure: (wanted, signal) =>
        right.ensure(
          mapListeners(wanted, (listener) => ({
            ...listener,
            members: listener.members.map((one) => ({ ...one, weight: Math.min(one.weight, 100) })),
          })),
          signal,
        ),
    }),
  },
  {
    fault: 'lists no member that drains',
    check: 'change-weight-zero',
    breakIt: ({ right }) => ({
      list: async (signal) =>
        changeOwned(await right.list(signal), (balancer) =>
          mapListeners(balancer, (listener) => ({
            ...listener,
            members: listener.members.filter(({ weight }) => weight > 0),
          })),
        ),
    }),
  },
  {
    fault: 'reads one page of a table',
    check: 'many-members',
    breakIt: ({ right }) => ({
      list: async (signal) =>
        changeOwned(await right.list(signal), (balancer) =>
          mapListeners(balancer, (listener) => ({ ...listener, members: listener.members.slice(0, 32) })),
        ),
    }),
  },
  {
    fault: 'cuts long names',
    check: 'longest-names',
    breakIt: ({ right }) => {
      const cut = (id: Balancer['id']) =>
        formatMark(id).length > 200 ? { ...id, uid: `${id.uid.slice(0, -1)}0` } : id;
      return {
        plan: (wanted, signal) => right.plan({ ...wanted, id: cut(wanted.id) }, signal),
        ensure: (wanted, signal) => right.ensure({ ...wanted, id: cut(wanted.id) }, signal),
        remove: (id, signal) => right.remove(cut(id), signal),
      };
    },
  },
  {
    fault: 'lists addresses of IPv6 in a form of its own',
    check: 'ipv6',
    breakIt: ({ right }) => ({
      list: async (signal) =>
        changeOwned(await right.list(signal), (balancer) => ({
          ...balancer,
          addresses: balancer.addresses.map((one) => ({ ...one, text: one.text.replace('::', ':0:') })),
        })),
    }),
  },
  {
    fault: 'takes UDP for TCP',
    check: 'udp',
    breakIt: ({ right }) => ({
      list: async (signal) =>
        changeOwned(await right.list(signal), (balancer) =>
          mapListeners(balancer, (listener) => ({ ...listener, protocol: 'tcp' })),
        ),
    }),
  },
  {
    fault: 'knows a balancer by its name alone',
    check: 'same-name',
    breakIt: ({ right }) => ({
      remove: async (id, signal) => {
        // The longest names are another check's.
        const isSame = ({ name }: Balancer['id']) => name === id.name && name.length < 63;
        for (const { balancer } of await right.list(signal))
          if (isSame(balancer.id)) await right.remove(balancer.id, signal);
        return await right.remove(id, signal);
      },
    }),
  },
  {
    fault: 'lists what has a name that begins as its own',
    check: 'two-clusters',
    breakIt: ({ right, settings, open }) => ({
      list: async (signal) => [
        ...(await right.list(signal)),
        ...(settings.cluster === testClusters[0]
          ? await open({ cluster: testClusters[1] }).list(signal)
          : []),
      ],
    }),
  },
  {
    fault: 'deletes what it does not know',
    check: 'foreign-objects',
    breakIt: (parts) => ({
      ensure: async (wanted, signal) => {
        const foreign = parts.device.listRunning().filter((name) => !name.startsWith('vipnat_'));
        for (const name of foreign) await send(parts, { ask: 'delete', name }, signal);
        return await parts.right.ensure(wanted, signal);
      },
    }),
  },
  {
    fault: 'leaves an object where a creation is cut off',
    check: 'crash-create',
    breakIt: (parts) => ({
      ensure: async (wanted, signal) => {
        if ((await findOwned(parts, wanted, signal)) !== null)
          return await parts.right.ensure(wanted, signal);
        await send(parts, { ask: 'put', name: 'lock', value: 'taken' }, signal);
        await parts.right.ensure(wanted, signal);
        await send(parts, { ask: 'delete', name: 'lock' }, signal);
        return await parts.right.ensure(wanted, signal);
      },
    }),
  },
  {
    fault: 'removes members before it adds others',
    check: 'successor-first',
    breakIt: (parts) => ({
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
    }),
  },
  {
    fault: 'applies listener by listener',
    check: 'whole-commit',
    capabilities: { atomicCommit: true, pendingChanges: true },
    breakIt: (parts) => ({
      ensure: async (wanted, signal) => {
        const isNew = (await findOwned(parts, wanted, signal)) === null;
        const first = { ...wanted, listeners: wanted.listeners.slice(0, 1) };
        const progress: Progress = isNew ? await parts.right.ensure(first, signal) : { result: 'done' };
        return progress.result === 'done' ? await parts.right.ensure(wanted, signal) : progress;
      },
    }),
  },
  {
    fault: 'makes a failure of whatever beforeCall throws',
    check: 'before-call',
    breakIt: ({ right }) => ({
      ensure: (wanted, signal) =>
        right.ensure(wanted, signal).catch((error: unknown) => ({ result: 'failed', why: String(error) })),
    }),
  },
  {
    fault: 'goes on after its signal',
    check: 'abort',
    breakIt: ({ right, clock }) => ({
      ensure: (wanted, signal) => {
        const late = new AbortController();
        signal.addEventListener('abort', () => {
          clock.schedule(10_000, () => {
            late.abort();
          });
        });
        return right.ensure(wanted, late.signal);
      },
    }),
  },
  {
    fault: 'waits for an answer whatever its signal says',
    check: 'abort-waiting',
    breakIt: ({ open, context }) => ({
      ensure: (wanted, signal) => {
        const beforeCall = (call: string) => {
          signal.throwIfAborted();
          return context.beforeCall(call);
        };
        return open({ context: { ...context, beforeCall } }).ensure(wanted, never);
      },
    }),
  },
  {
    fault: 'cuts the connections of a member that drains',
    check: 'drain',
    breakIt: (parts) => ({
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
    }),
  },
  {
    fault: 'does not ask who is active after its changes',
    check: 'failover',
    breakIt: ({ right }) => ({
      ensure: async (wanted, signal) => {
        const progress = await right.ensure(wanted, signal);
        const isElsewhere = progress.result === 'failed' && progress.why.includes('is active now');
        return isElsewhere ? { result: 'done' } : progress;
      },
    }),
  },
  {
    fault: 'does not save',
    check: 'restart',
    // The units of a pair copy what they save, so failover would find it, too.
    capabilities: { pair: false },
    breakIt: ({ open, device }) => {
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
  },
  {
    fault: 'takes a lost answer for a good one',
    check: 'lost-answer',
    breakIt: ({ right }) => ({
      ensure: async (wanted, signal) => {
        const progress = await right.ensure(wanted, signal);
        const isLost = progress.result === 'failed' && progress.why.includes('closed the connection');
        return isLost ? { result: 'done' } : progress;
      },
    }),
  },
  {
    fault: 'rejects where the device refuses',
    check: 'refusal',
    breakIt: ({ right }) => ({
      ensure: async (wanted, signal) => {
        const progress = await right.ensure(wanted, signal);
        if (progress.result === 'refused') throw new DeviceError('refused', rejection);
        return progress;
      },
    }),
  },
  {
    fault: 'lists nothing where no unit answers',
    check: 'unreachable',
    breakIt: ({ right }) => ({
      list: (signal) =>
        right.list(signal).catch((error: unknown) => {
          if (error instanceof DeviceError) return [];
          throw error;
        }),
    }),
  },
  {
    fault: 'reverts what other users changed',
    check: 'pending-changes',
    capabilities: { atomicCommit: true, pendingChanges: true },
    breakIt: ({ right, device }) => ({
      ensure: (wanted, signal) => {
        device.changePending('www', device.read('www'));
        return right.ensure(wanted, signal);
      },
    }),
  },
];

/** Does not see a change of this alone. */
function ignoringChange(key: 'method' | 'affinityS', check: string): BrokenDriver {
  return {
    fault: `compares all but ${key}`,
    check,
    breakIt: (parts: BrokenParts) => ({
      ensure: async (wanted, signal) => {
        const former = await findOwned(parts, wanted, signal);
        const same = former === null ? wanted : { ...wanted, [key]: former[key] };
        const isAlone = former !== null && (await parts.right.plan(same, signal)).length === 0;
        return isAlone ? { result: 'done' } : await parts.right.ensure(wanted, signal);
      },
    }),
  };
}

function changeOwned(owned: readonly Owned[], change: (balancer: Balancer) => Balancer): readonly Owned[] {
  return owned.map((one) => ({ ...one, balancer: change(one.balancer) }));
}
