import { parseObjectName } from '../../lib/services/address-name.ts';
import { type Condition } from '../../lib/services/metadata.ts';
import { type AddressUser, type VirtualIp } from '../../lib/services/objects.ts';
import { isInUse, isProgrammed, setCondition, toTime } from '../world/conditions.ts';
import { type World } from '../world/world.ts';
import { startLeaving } from './claims.ts';
import { isPublished, mayPublish } from './may-publish.ts';
import { type Confirmation, nothing, type Step } from './step.ts';
import {
  confirmService,
  deleteVirtualIp,
  patchVirtualIp,
  patchVirtualIpStatus,
  toJson,
  toStep,
} from './writes.ts';

/** Of a pool that is gone. */
const defaultReuseMs = 60_000;

/** The date of the controller before this one may have been ahead by so much. */
const toleratedSkewMs = 2000;

/**
 * The next step of an address that is given: Services that are gone leave it, those that have left it are struck off, its status says
 * what nodes say. When nobody has it any more it waits, and is deleted then.
 */
export function nextVirtualIpStep(name: string, world: World): Step {
  const virtualIp = world.virtualIps.get(name);
  if (virtualIp === undefined) return nothing;
  return (
    sendGoneServices(virtualIp, world) ??
    strikeOff(virtualIp, world) ??
    moveSeat(virtualIp, world) ??
    writeStatus(virtualIp, world) ??
    (virtualIp.spec.services.length > 0 ? awaitNodes(virtualIp, world) : awaitReuse(virtualIp, world))
  );
}

/** Services that do not exist any more, or not as the same ones. */
function sendGoneServices(virtualIp: VirtualIp, world: World): Step | null {
  const gone = virtualIp.spec.services.filter((user) => findService(user, world) === undefined);
  if (gone.length === 0) return null;
  const spec = startLeaving(virtualIp, new Set(gone.map(({ uid }) => uid)));
  const confirm = gone.map((user) => confirmUser(user, world));
  return toStep(patchVirtualIp(virtualIp, spec, confirm));
}

/** Services that have given it back: every node has forgotten it for them, and their status will never have it again. */
function strikeOff(virtualIp: VirtualIp, world: World): Step | null {
  const { metadata, spec } = virtualIp;
  const address = parseObjectName(metadata.name);
  if (spec.leaving.length === 0 || !world.candidates.haveForgotten(metadata.resourceVersion)) return null;
  const isDone = (user: AddressUser) => {
    const service = findService(user, world);
    if (service === undefined || address === null) return true;
    return !isPublished(service, address) && !mayPublish(service, address, world.settings);
  };
  const done = spec.leaving.filter(isDone);
  if (done.length === 0) return null;
  const leaving = spec.leaving.filter((user) => !done.includes(user));
  return toStep(
    patchVirtualIp(
      virtualIp,
      { leaving },
      done.map((user) => confirmUser(user, world)),
    ),
  );
}

/** A pool that has fewer seats now keeps the others until nobody sits there. */
function moveSeat(virtualIp: VirtualIp, world: World): Step | null {
  const { pool, seat } = virtualIp.spec;
  const seats = world.pools.get(pool)?.status?.seats ?? [];
  const count = Math.min(seats.length, world.pools.get(pool)?.spec.seats ?? 0);
  return count === 0 || seat < count ? null : toStep(patchVirtualIp(virtualIp, { seat: seat % count }));
}

function writeStatus(virtualIp: VirtualIp, world: World): Step | null {
  const { status, metadata } = virtualIp;
  const before = status?.conditions ?? [];
  const conditions = addProgrammed(addInUse(before, virtualIp, world), virtualIp, world);
  const releasedAt = findReleasedAt(virtualIp, world);
  if (conditions === before && releasedAt === (status?.releasedAt ?? null)) return null;
  const isNew = isInUse({ status: { conditions: [...conditions] } }) && !isInUse(virtualIp);
  const message = `Another host answers for ${toText(metadata.name)}.`;
  return toStep(
    patchVirtualIpStatus(virtualIp, { releasedAt, conditions: toJson(conditions) }),
    isNew ? { type: 'Warning', reason: 'AddressInUse', message } : null,
  );
}

/** Since when nobody has it: the moment that is known, or now. Null while somebody has it. */
function findReleasedAt(virtualIp: VirtualIp, world: World): string | null {
  const { services, leaving } = virtualIp.spec;
  if (services.length > 0 || leaving.length > 0) return null;
  return toTime(readReleasedMs(virtualIp, world) ?? world.nowMs);
}

/** Since when nobody has it; null when that is not known, or lies ahead, as after a date that was wrong. */
function readReleasedMs({ status }: VirtualIp, { nowMs }: World): number | null {
  const ms = Date.parse(status?.releasedAt ?? '');
  return Number.isNaN(ms) || ms > nowMs + toleratedSkewMs ? null : ms;
}

function addInUse(before: readonly Condition[], virtualIp: VirtualIp, world: World): readonly Condition[] {
  const text = toText(virtualIp.metadata.name);
  const reporter = [...world.livingReports.values()].find(({ inUse }) => inUse.includes(text));
  if (reporter === undefined && !isInUse(virtualIp)) return before;
  const wanted =
    reporter === undefined
      ? ({ status: 'False', reason: 'Free', message: 'No other host answers for it.' } as const)
      : ({
          status: 'True',
          reason: 'AnotherHost',
          message: 'Another host on the network answers for it.',
        } as const);
  return setCondition(before, { type: 'AddressInUse', ...wanted }, world.nowMs);
}

function addProgrammed(
  before: readonly Condition[],
  virtualIp: VirtualIp,
  world: World,
): readonly Condition[] {
  const { spec, metadata } = virtualIp;
  if (spec.services.length === 0 || isProgrammed(virtualIp) || !isOnAllNodes(virtualIp, world)) return before;
  const wanted = {
    type: 'Programmed',
    status: 'True',
    reason: 'Programmed',
    message: 'Every living node of its pool has programmed it.',
    observedGeneration: metadata.generation,
  } as const;
  return setCondition(before, wanted, world.nowMs);
}

/** Every candidate has it and its Services, as they are now. There is one at least. */
function isOnAllNodes({ metadata, spec }: VirtualIp, world: World): boolean {
  const { candidates } = world;
  return (
    candidates.list(spec.pool).length > 0 &&
    candidates.haveProgrammed(spec.pool, 'virtualips', metadata.resourceVersion) &&
    spec.services.every((user) => {
      const version = findService(user, world)?.metadata.resourceVersion;
      return version !== undefined && candidates.haveProgrammed(spec.pool, 'services', version);
    })
  );
}

function awaitNodes(virtualIp: VirtualIp, world: World): Step {
  const isDone = isProgrammed(virtualIp) && virtualIp.spec.leaving.length === 0 && !isInUse(virtualIp);
  if (isDone) return nothing;
  const names = world.candidates.listBehind(virtualIp.spec.pool, virtualIp.metadata.resourceVersion);
  return { does: 'wait', waitsFor: 'nodes', why: `nodes: ${names.join(', ')}`, untilMs: null };
}

/** Nobody has it: it goes when its time is over, no node has it, and no other host answers for it. */
function awaitReuse(virtualIp: VirtualIp, world: World): Step {
  const { metadata, spec } = virtualIp;
  const wait = (why: string): Step => ({ does: 'wait', waitsFor: 'nodes', why, untilMs: null });
  if (spec.leaving.length > 0) return wait('the Services that leave it');
  const reuseMs = world.judgedPools.get(spec.pool)?.reuseAfterMs ?? defaultReuseMs;
  const untilMs = (readReleasedMs(virtualIp, world) ?? world.nowMs) + reuseMs;
  if (untilMs > world.nowMs) return { does: 'wait', waitsFor: 'time', why: 'the end of reuseAfter', untilMs };
  if (isInUse(virtualIp)) return wait('the other host that answers for it');
  if (!world.candidates.haveForgotten(metadata.resourceVersion)) return wait('every node forgets it');
  return toStep(deleteVirtualIp(virtualIp));
}

/** The Service, if it is the same one. */
function findService(
  { namespace, name, uid }: AddressUser,
  world: World,
): ReturnType<World['services']['get']> {
  const service = world.services.get(`${namespace}/${name}`);
  return service?.metadata.uid === uid ? service : undefined;
}

/** An address as people write it. */
function toText(name: string): string {
  return parseObjectName(name)?.text ?? name;
}

/** What is known of a user is still so: nobody of this name, another one, or the same one unchanged. */
function confirmUser({ namespace, name }: AddressUser, world: World): Confirmation {
  return confirmService(namespace, name, world.services.get(`${namespace}/${name}`));
}
