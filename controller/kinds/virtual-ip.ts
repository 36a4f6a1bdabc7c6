import { parseAddress } from '../../lib/address/address.ts';
import { type Change } from '../../lib/kubernetes/object-store.ts';
import { parseObjectName, toObjectName } from '../../lib/services/address-name.ts';
import { type Condition } from '../../lib/services/metadata.ts';
import { apiGroup, apiVersion } from '../../lib/services/names.ts';
import { type NodeReport } from '../../lib/services/node-report.ts';
import { type AddressUser, type VirtualIp } from '../../lib/services/objects.ts';
import { keepSeat } from '../allocate/seat-of-address.ts';
import { isInUse, isProgrammed } from '../cache/conditions.ts';
import { listDiffering } from '../cache/multi-map.ts';
import { getPoolParts, listSeated, listUsers, readReleasedMs } from '../cache/object-parts.ts';
import { type Known, type World } from '../cache/world.ts';
import { type Kind } from '../engine/kind.ts';
import { type Confirmation, nothing, type Step, type StepEvent, toJson, toStep } from '../engine/step.ts';
import { startLeaving } from './claims.ts';
import { isPublished, mayPublish } from './may-publish.ts';
import { listSilentHolders } from '../cache/silent-nodes.ts';
import { restoreVirtualIp } from './restore-virtual-ip.ts';
import { findService, judgeVirtualIp } from './virtual-ip-status.ts';
import { confirmService, deleteVirtualIp, patchVirtualIp, patchVirtualIpStatus } from './writes.ts';

/** Addresses that are given. */
export const virtualIp: Kind = {
  name: 'VirtualIP',
  source: 'virtualIps',
  subject: { apiVersion: `${apiGroup}/${apiVersion}`, kind: 'VirtualIP' },
  watches: [
    { source: 'virtualIps', toKeys: ({ key }) => [key] },
    { source: 'services', toKeys: ({ key }, known) => known.serviceToVirtualIps.get(key) ?? [] },
    {
      source: 'pools',
      part: getPoolParts,
      toKeys: ({ key }, known) => known.poolToVirtualIps.get(key) ?? [],
    },
    { source: 'livingReports', toKeys: listReported, wakes: () => ['nodes'] },
    { source: 'silentNodes', wakes: () => ['nodes'] },
    { source: 'judgements', wakes: () => ['nodes'] },
  ],
  next: nextVirtualIpStep,
  findTenant: (name, { virtualIps, lostVirtualIps }) => {
    const [user] = listUsers(virtualIps.get(name) ?? lostVirtualIps.get(name) ?? null);
    return user?.split('/')[0] ?? '';
  },
};

/** Of seats that a node has taken or left, or holds in another mode; and those that another host has, or has no longer. */
function listReported({ before, after }: Change<NodeReport>, known: Known): string[] {
  const [old, now] = [before?.seats ?? [], after?.seats ?? []];
  const seats = before?.mode === after?.mode ? listDiffering(old, now) : [...new Set([...old, ...now])];
  const inUse = listDiffering(before?.inUse, after?.inUse).flatMap((text) => parseAddress(text) ?? []);
  return [...inUse.map(toObjectName), ...seats.flatMap((seat) => listSeated(seat, known))];
}

/** Of a pool that is gone. */
const defaultReuseMs = 60_000;

/**
 * The next step of an address that is given: Services that are gone leave it, those that have left it are struck off, its status says
 * what nodes say. When nobody has it any more it waits, and is deleted then.
 */
function nextVirtualIpStep(name: string, world: World): Step {
  const virtualIp = world.virtualIps.get(name);
  if (virtualIp === undefined) {
    const lost = world.lostVirtualIps.get(name);
    return lost === undefined ? nothing : toStep(restoreVirtualIp(name, lost, world));
  }
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

/** Services that have given it back: no node may serve it for them any more, and their status will never have it again. */
function strikeOff(virtualIp: VirtualIp, world: World): Step | null {
  const { metadata, spec } = virtualIp;
  const address = parseObjectName(metadata.name);
  if (spec.leaving.length === 0 || !world.candidates.haveForgotten(metadata.resourceVersion)) return null;
  if (listSilentHolders(virtualIp, world).length > 0) return null;
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
      { leaving, formerNamespaces: listFormer(virtualIp, done) },
      done.map((user) => confirmUser(user, world)),
    ),
  );
}

/** Whose namespaces may name the address until it may be given again. */
function listFormer({ spec }: VirtualIp, gone: readonly AddressUser[]): string[] {
  return [...new Set([...spec.formerNamespaces, ...gone.map(({ namespace }) => namespace)])].sort();
}

/** A pool that has fewer seats now keeps the others until nobody sits there. A pool may choose an address of a Service as an anchor. */
function moveSeat(virtualIp: VirtualIp, world: World): Step | null {
  const { pool, seat } = virtualIp.spec;
  const wanted = keepSeat(parseObjectName(virtualIp.metadata.name), seat, world.pools.get(pool));
  return wanted === seat ? null : toStep(patchVirtualIp(virtualIp, { seat: wanted }));
}

function writeStatus(virtualIp: VirtualIp, world: World): Step | null {
  const wanted = judgeVirtualIp(virtualIp, world);
  const known = virtualIp.status ?? {};
  const changed = wanted.conditions.filter((one) => known.conditions?.includes(one) !== true);
  const isOther = (name: 'releasedAt' | 'holder' | 'mode') => wanted[name] !== (known[name] ?? null);
  const tellsMore = isOther('releasedAt') || changed.some(({ type }) => type !== 'Announced');
  if (!tellsMore && changed.length === 0 && !isOther('holder') && !isOther('mode')) return null;
  const write = patchVirtualIpStatus(virtualIp, { ...wanted, conditions: toJson(wanted.conditions) });
  const step = toStep(write, describeChange(virtualIp, changed));
  return tellsMore ? step : { ...step, isLowPriority: true };
}

/** Told when another host is found, and when nodes are that may serve it on. */
function describeChange({ metadata }: VirtualIp, changed: readonly Condition[]): StepEvent | null {
  const address = toText(metadata.name);
  const isFound = changed.some(({ type, status }) => type === 'AddressInUse' && status === 'True');
  if (isFound)
    return { type: 'Warning', reason: 'AddressInUse', message: `Another host answers for ${address}.` };
  const kept = changed.find(({ type, status }) => type === 'Withdrawn' && status === 'False');
  return kept === undefined
    ? null
    : { type: 'Warning', reason: 'AddressKept', message: `${address}: ${kept.message}` };
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

/** An address as people write it. */
function toText(name: string): string {
  return parseObjectName(name)?.text ?? name;
}

/** What is known of a user is still so: nobody of this name, another one, or the same one unchanged. */
function confirmUser({ namespace, name }: AddressUser, world: World): Confirmation {
  return confirmService(namespace, name, world.services.get(`${namespace}/${name}`));
}
