import {
  type BrokenDriver,
  answering,
  broken,
  findOwned,
  findPlace,
  keepAll,
  listing,
  mapListeners,
  mapMembers,
  rejection,
  replaceCall,
  send,
  serving,
} from './broken-driver.ts';
import {
  formatMark,
  parseMark,
  DeviceError,
  type Balancer,
  formatMember,
  type Progress,
} from '../../../devices/driver.ts';
import { testClusters } from '../../../devices/conformance/shapes.ts';
import type { FakeDevice } from './fake-device.ts';

/** Each with the check that is meant for it. Many are faults of published controllers. */
export const brokenDrivers: readonly BrokenDriver[] = [
  broken('ensure-again | writes what is there already | writes: "write put ', (parts) => ({
    ensure: async (wanted, signal) => {
      const progress = await parts.right.ensure(wanted, signal);
      const [name = ''] = parts.device.listRunning().filter((one) => one.startsWith(formatMark(wanted.id)));
      const value = parts.device.read(name);
      if (value !== null) await send(parts, { ask: 'put', name, value }, signal);
      return progress;
    },
  })),
  broken(
    'remove-unknown | cannot remove what it does not know | remove number 1 of what',
    ({ right, memory }) => ({
      ensure: (wanted, signal) => {
        memory.add(formatMark(wanted.id));
        return right.ensure(wanted, signal);
      },
      remove: (id, signal) =>
        memory.has(formatMark(id))
          ? right.remove(id, signal)
          : Promise.resolve({ result: 'failed', why: 'there is no such balancer' }),
    }),
  ),
  broken('plan-writes-nothing | makes what it plans | plan writes: "write put ', ({ right }) => ({
    plan: async (wanted, signal) => {
      const changes = await right.plan(wanted, signal);
      if (changes.length > 0) await right.ensure(wanted, signal);
      return changes;
    },
  })),
  broken(
    'state unreachable | says that both units are active | not one unit is active: unit-1',
    ({ right }) => ({
      readState: async (signal) => {
        const { units, foreignChanges } = await right.readState(signal);
        return { units: units.map((unit) => ({ ...unit, role: 'active' })), foreignChanges };
      },
    }),
  ),
  broken('concurrent-reads | cannot list while it changes | list rejects: nonsense', ({ right, memory }) => ({
    ensure: async (wanted, signal) => {
      memory.add('changing');
      return await right.ensure(wanted, signal).finally(() => memory.delete('changing'));
    },
    list: (signal) =>
      memory.has('changing')
        ? Promise.reject(new DeviceError('nonsense', 'a table is locked'))
        : right.list(signal),
  })),
  broken(
    'change-member-port | knows a member by its address alone | instead of "198.51.100.1:30443"',
    (parts) => ({
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
  ),
  ignoringChange('method', 'change-method', 'after change 1, list misses'),
  ignoringChange('affinityS', 'change-affinity', 'a client of tcp/8080'),
  broken('change-weights | cuts weights at 100 | after change 2, list misses', ({ right }) => ({
    ensure: (wanted, signal) => {
      const cut = mapMembers((member) => ({ ...member, weight: Math.min(member.weight, 100) }));
      return right.ensure(cut([wanted])[0] ?? wanted, signal);
    },
  })),
  listing('change-weight-zero | lists no member that drains | after change 1, list misses', (balancer) =>
    mapListeners(balancer, (listener) => ({
      ...listener,
      members: listener.members.filter(({ weight }) => weight > 0),
    })),
  ),
  listing('many-members | reads one page of a table | with 50 members, list misses', (balancer) =>
    mapListeners(balancer, (listener) => ({ ...listener, members: listener.members.slice(0, 32) })),
  ),
  broken('longest-names | cuts long names | with the longest names, list misses', ({ right }) => {
    const cut = (id: Balancer['id']) =>
      formatMark(id).length > 200 ? { ...id, uid: `${id.uid.slice(0, -1)}0` } : id;
    return {
      plan: (wanted, signal) => right.plan({ ...wanted, id: cut(wanted.id) }, signal),
      ensure: (wanted, signal) => right.ensure({ ...wanted, id: cut(wanted.id) }, signal),
      remove: (id, signal) => right.remove(cut(id), signal),
    };
  }),
  listing('ipv6 | has addresses of IPv6 in its own form | and has "', (balancer) => ({
    ...balancer,
    addresses: balancer.addresses.map((one) => ({ ...one, text: one.text.replace('::', ':0:') })),
  })),
  listing('udp | takes UDP for TCP | with udp, list misses', (balancer) =>
    mapListeners(balancer, (listener) => ({ ...listener, protocol: 'tcp' })),
  ),
  broken('same-name | knows a balancer by its name alone | after remove of the former', ({ right }) => ({
    remove: async (id, signal) => {
      // The longest names are another check's.
      const isSame = ({ name }: Balancer['id']) => name === id.name && name.length < 63;
      for (const { balancer } of await right.list(signal))
        if (isSame(balancer.id)) await right.remove(balancer.id, signal);
      return await right.remove(id, signal);
    },
  })),
  broken(
    'two-clusters | lists what has a name that begins as its own | for the first cluster, list has',
    ({ right, settings, open }) => ({
      list: async (signal) => [
        ...(await right.list(signal)),
        ...(settings.cluster === testClusters[0]
          ? await open({ cluster: testClusters[1] }).list(signal)
          : []),
      ],
    }),
  ),
  broken('foreign-objects | deletes what it does not know | "at 192.0.2.1" and is "gone"', (parts) => ({
    ensure: async (wanted, signal) => {
      const foreign = parts.device.listRunning().filter((name) => !name.startsWith('vipnat_'));
      for (const name of foreign) await send(parts, { ask: 'delete', name }, signal);
      return await parts.right.ensure(wanted, signal);
    },
  })),
  broken('crash-create | leaves a lock where it is cut off | still has "unit-1 runs lock', (parts) => ({
    ensure: async (wanted, signal) => {
      if ((await findOwned(parts, wanted, signal)) !== null) return await parts.right.ensure(wanted, signal);
      await send(parts, { ask: 'put', name: 'lock', value: 'taken' }, signal);
      await parts.right.ensure(wanted, signal);
      await send(parts, { ask: 'delete', name: 'lock' }, signal);
      return await parts.right.ensure(wanted, signal);
    },
  })),
  broken(
    'successor-first | removes members before it adds others | tcp/8080 lost 198.51.100.1:30080 before',
    (parts) => ({
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
  ),
  broken(
    'whole-commit | applies listener by listener | list has a part of the change: it misses',
    (parts) => ({
      ensure: async (wanted, signal) => {
        const isNew = (await findOwned(parts, wanted, signal)) === null;
        const first = { ...wanted, listeners: wanted.listeners.slice(0, 1) };
        const progress: Progress = isNew ? await parts.right.ensure(first, signal) : { result: 'done' };
        return progress.result === 'done' ? await parts.right.ensure(wanted, signal) : progress;
      },
    }),
    { capabilities: { atomicCommit: true, pendingChanges: true } },
  ),
  broken('before-call | makes a failure of what beforeCall throws | failed: ProcessEnd', ({ right }) => ({
    ensure: (wanted, signal) =>
      right.ensure(wanted, signal).catch((error: unknown) => ({ result: 'failed', why: String(error) })),
  })),
  broken('abort | goes on after its signal | ensure makes 15 more calls', ({ right, clock }) => ({
    ensure: (wanted, signal) => {
      const late = new AbortController();
      signal.addEventListener('abort', () => {
        clock.schedule(10_000, late.abort.bind(late));
      });
      return right.ensure(wanted, late.signal);
    },
  })),
  broken(
    'abort-waiting | waits for an answer all the same | ensure has not ended 30 s',
    ({ open, context }) => ({
      ensure: (wanted, signal) => {
        const beforeCall = (call: string) => {
          signal.throwIfAborted();
          return context.beforeCall(call);
        };
        return open({ context: { ...context, beforeCall } }).ensure(wanted, new AbortController().signal);
      },
    }),
  ),
  broken('drain | cuts the connections of a member that drains | the open connection is gone', (parts) => ({
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
  broken(
    'same-cluster-name | takes all of the name for its own | for the first cluster, list has',
    () => ({}),
    {
      capabilities: { identity: true },
    },
  ),
  answering('failover | does not ask who is active at last | at call 12: a client of tcp/8080', (progress) =>
    progress.result === 'failed' && progress.why.includes('is active now') ? { result: 'done' } : progress,
  ),
  // The units of a pair copy what they save, so failover would find it, too.
  broken(
    'restart | does not save | after a restart, list misses',
    ({ open, device }) => {
      const call: FakeDevice['call'] = async (unit, request, signal) => {
        const answer = await device.call(unit, request.ask === 'save' ? { ask: 'role' } : request, signal);
        return { ...answer, isSaved: true };
      };
      const unsaved = open({ device: replaceCall(device, call) });
      return { ensure: (wanted, signal) => unsaved.ensure(wanted, signal) };
    },
    { capabilities: { pair: false } },
  ),
  answering(
    'lost-answer | takes a lost answer for a good one | at call 3: a client of tcp/8080',
    (progress) =>
      progress.result === 'failed' && progress.why.includes('closed the') ? { result: 'done' } : progress,
  ),
  answering('refusal | rejects where the device refuses | ensure rejects: refused', (progress) => {
    if (progress.result === 'refused') throw new DeviceError('refused', rejection);
    return progress;
  }),
  broken('unreachable | lists nothing where no unit answers | list does not reject', ({ right }) => ({
    list: (signal) =>
      right.list(signal).catch((error: unknown) => {
        if (error instanceof DeviceError) return [];
        throw error;
      }),
  })),
  broken(
    'successor-first refusal | makes anew what it changes | 198.51.100.2:30080, which was to stay',
    (parts) => ({
      ensure: async (wanted, signal) => {
        const former = await findOwned(parts, wanted, signal);
        const isOther = former !== null && former.method !== wanted.method;
        if (isOther) await parts.right.remove(wanted.id, signal);
        return await parts.right.ensure(wanted, signal);
      },
    }),
  ),
  broken('two-clusters | deletes what other clusters have | for the first cluster, list misses', (parts) => ({
    ensure: async (wanted, signal) => {
      const isOther = (name: string) =>
        name.startsWith('vipnat_') && name.split('_')[1] !== wanted.id.cluster;
      for (const name of parts.device.listRunning().filter(isOther))
        await send(parts, { ask: 'delete', name }, signal);
      return await parts.right.ensure(wanted, signal);
    },
  })),
  broken(
    'many-balancers | removes what begins with the name | every second one, list misses',
    ({ right }) => ({
      remove: async (id, signal) => {
        for (const { balancer } of await right.list(signal))
          if (balancer.id.name.startsWith(`${id.name}0`)) await right.remove(balancer.id, signal);
        return await right.remove(id, signal);
      },
    }),
  ),
  broken('remove | leaves an object at each change | the device still has', (parts) => ({
    ensure: async (wanted, signal) => {
      const progress = await parts.right.ensure(wanted, signal);
      if (wanted.id.name === 'another-1') await send(parts, { ask: 'put', name: 'old', value: '' }, signal);
      return progress;
    },
  })),
  broken('forget | lists what it remembers | after the loss, list has', ({ right, memory, settings }) => ({
    list: async (signal) => {
      const owned = await right.list(signal);
      const ids = [...memory].flatMap((mark) => parseMark(mark, settings.cluster)?.id ?? []);
      const nothing = { addresses: [], listeners: [], method: 'rr', affinityS: null } as const;
      const remembered = ids.map((id) => ({ balancer: { ...nothing, id }, memberToSessions: null }));
      return owned.length > 0 ? owned : remembered;
    },
    ensure: (wanted, signal) => {
      memory.add(formatMark(wanted.id));
      return right.ensure(wanted, signal);
    },
    remove: (id, signal) => {
      memory.delete(formatMark(id));
      return right.remove(id, signal);
    },
  })),
  answering(
    'failover lost-answer unreachable | says done to all that fails | a client of tcp/8080',
    (progress) => (progress.result === 'failed' ? { result: 'done' } : progress),
  ),
  answering(
    'refusal | says done to what is refused | ensure is done while it refuses, list misses',
    (progress) => (progress.result === 'refused' ? { result: 'done' } : progress),
    { isBlind: true },
  ),
  broken('unreachable | always says that a unit is active | readState says that unit-1 is', ({ right }) => ({
    readState: async (signal) => {
      const { units, foreignChanges } = await right.readState(signal);
      const first = units.slice(0, 1).map((unit) => ({ ...unit, role: 'active' as const }));
      return { units: [...first, ...units.slice(1)], foreignChanges };
    },
  })),
  broken(
    'ensure-list | names its writes as nobody does | the call "update put',
    ({ open, context }) => {
      const beforeCall = (call: string) => context.beforeCall(call.replace('write', 'update'));
      const right = open({ context: { ...context, beforeCall } });
      return { ensure: (wanted, signal) => right.ensure(wanted, signal) };
    },
    { isEverywhere: true },
  ),
  answering(
    'ensure-list | does not say when to ask again | ensure is running without a number as retryInMs',
    () => ({ result: 'running', why: 'wait', retryInMs: Number('soon') }),
    { isEverywhere: true },
  ),
  broken(
    'ensure-list | says done before it is in force | shop/web at 192.0.2.1 reaches no member',
    ({ open, device }) => {
      const call: FakeDevice['call'] = async (...words) => {
        const answer = await device.call(...words);
        return { ...answer, running: answer.candidate, isApplying: false, isSaved: true };
      };
      const early = open({ device: replaceCall(device, call) });
      return {
        list: (signal) => early.list(signal),
        ensure: (wanted, signal) => early.ensure(wanted, signal),
      };
    },
    { capabilities: { atomicCommit: true }, applyMs: 700, isEverywhere: true },
  ),
  serving('ensure-list | listens nowhere | shop/web at 192.0.2.1 reaches no member', () => () => []),
  serving('ensure-list | connects to another port | :30081 instead of "198.51.100.1:30080"', () =>
    mapMembers((member) => ({ ...member, port: member.port + 1 })),
  ),
  serving('change-weight-zero | ignores a weight of 0 | reaches 198.51.100.1:30080 instead of', () =>
    mapMembers((member) => ({ ...member, weight: 1 })),
  ),
  serving(
    'change-method | hashes with each method | never reach "198.51.100.2:30080"',
    () => (there) => there.map((balancer) => ({ ...balancer, method: 'hash' })),
  ),
  serving(
    'least-connections | is in turn with lc | which alone has open connections',
    () => (there) => there.map((one) => (one.method === 'lc' ? { ...one, method: 'rr' } : one)),
  ),
  serving('change-listeners | goes on at ports that went | 30080 instead of no member', keepAll),
  serving('remove | serves what is removed | 30080 instead of no member', keepAll),
  broken(
    'pending-changes | reverts what other users changed | ensure is done while foreign changes wait',
    ({ right, device }) => ({
      ensure: (wanted, signal) => {
        device.changePending('www', device.read('www'));
        return right.ensure(wanted, signal);
      },
    }),
    { capabilities: { atomicCommit: true, pendingChanges: true } },
  ),
];

/** Does not see a change of this alone. */
function ignoringChange(key: 'method' | 'affinityS', check: string, found: string): BrokenDriver {
  return broken(`${check} | compares all but ${key} | ${found}`, (parts) => ({
    ensure: async (wanted, signal) => {
      const former = await findOwned(parts, wanted, signal);
      const same = former === null ? wanted : { ...wanted, [key]: former[key] };
      const isAlone = former !== null && (await parts.right.plan(same, signal)).length === 0;
      return isAlone ? { result: 'done' } : await parts.right.ensure(wanted, signal);
    },
  }));
}
