import { toObjectName } from '../../lib/services/address-name.ts';
import { type Condition } from '../../lib/services/metadata.ts';
import { addressReady } from '../../lib/services/names.ts';
import { type Ingress, type Service } from '../../lib/services/services.ts';
import { type Choice } from '../allocate/choose-address.ts';
import { chooseSeat } from '../allocate/seats.ts';
import { readWishes } from '../../lib/services/wishes.ts';
import { findCondition, setCondition } from '../cache/conditions.ts';
import { getIngress } from '../cache/object-parts.ts';
import { listAbsent } from '../cache/silent-nodes.ts';
import { type World } from '../cache/world.ts';
import { addFinalizers, restoreVirtualIp, startLeaving, toUser } from './claims.ts';
import { isPublished, mayPublish } from './may-publish.ts';
import { writePortErrors } from './port-errors.ts';
import { judgeReadiness, type Readiness } from './readiness.ts';
import { nothing, type Step, type StepEvent, type Write, toJson, toStep } from '../engine/step.ts';
import { findTargets, type Situation } from './targets.ts';
import {
  confirmVirtualIp,
  createVirtualIp,
  patchServiceMetadata,
  patchServiceStatus,
  patchVirtualIp,
} from './writes.ts';

/**
 * The next step of a Service that is to have addresses: the finalizer, a VirtualIP of each family, its status once nodes have them. An
 * address that another one replaces is served until the other one is.
 */
export function serveService(service: Service, world: World): Step {
  const finalizers = addFinalizers(service);
  if (finalizers !== null) return toStep(patchServiceMetadata(service, { finalizers }));
  const situation = findTargets(service, world);
  const readiness = judgeReadiness(situation, world);
  return (
    claim(situation, world) ??
    adoptShareKey(situation) ??
    writeStatus(situation, readiness, world) ??
    writePortErrors(service, situation.claims.held, world) ??
    leaveSurplus(situation, world) ??
    rest(situation, readiness)
  );
}

/** Takes the first address that is to be taken. Families have one order everywhere, so that no two Services wait for each other. */
function claim({ service, wishes, targets }: Situation, world: World): Step | null {
  if (wishes.isAllOrNothing && targets.some(({ problem }) => problem !== null)) return null;
  const inOrder = targets.toSorted((one, other) => (one.family < other.family ? -1 : 1));
  const choice = inOrder.find((target) => target.choice !== null)?.choice ?? null;
  if (choice === null) return null;
  const { address, pool, existing } = choice;
  const event: StepEvent = {
    type: 'Normal',
    reason: 'AddressAllocated',
    message: `${address.text} of the AddressPool ${pool}.`,
  };
  const user = toUser(service);
  if (existing !== null && existing.spec.services.length > 0) {
    const leaving = existing.spec.leaving.filter(({ uid }) => uid !== user.uid);
    return toStep(patchVirtualIp(existing, { services: [...existing.spec.services, user], leaving }), event);
  }
  return toStep(takeAlone(service, choice, world), event);
}

/** Of an address that nobody has: one that is new, waits, or is taken back. */
function takeAlone(service: Service, { address, pool, existing }: Choice, world: World): Write {
  const name = toObjectName(address);
  const lost = world.lostVirtualIps.get(name);
  if (existing === null && lost !== undefined) return restoreVirtualIp(name, lost, world);
  const { shareKey } = readWishes(service);
  // A VirtualIP that somebody deleted: nothing says which nodes had heard of the address.
  const isUnknown = existing === null && isPublished(service, address);
  const absent = isUnknown ? [] : listAbsent(world, existing);
  const seat = chooseSeat(address, world.pools.get(pool));
  const services = [toUser(service)];
  const spec = { pool, seat, shareKey, services, leaving: [], formerNamespaces: [], absent };
  return existing === null ? createVirtualIp(name, spec) : patchVirtualIp(existing, spec);
}

/** A Service that is alone with its address may share it under another key, or no longer. */
function adoptShareKey({ wishes, targets }: Situation): Step | null {
  for (const { held } of targets) {
    if (held === null) continue;
    const { spec } = held.virtualIp;
    const isAlone = spec.services.length === 1 && spec.leaving.length === 0;
    if (isAlone && spec.shareKey !== wishes.shareKey)
      return toStep(patchVirtualIp(held.virtualIp, { shareKey: wishes.shareKey }));
  }
  return null;
}

function writeStatus({ service }: Situation, readiness: Readiness, world: World): Step | null {
  const before = service.status?.conditions ?? [];
  const known = findCondition(before, addressReady);
  const conditions = isWorthAWord(readiness, known) ? addCondition(before, readiness, world) : before;
  const ingress = toIngress(service, readiness);
  const isSame = toText(ingress) === toText(getIngress(service));
  if (isSame && conditions === before) return null;
  const write = patchServiceStatus(
    service,
    {
      loadBalancer: { ingress: ingress.length === 0 ? null : toJson(ingress) },
      conditions: toJson(conditions),
    },
    readiness.added.map(({ virtualIp }) => confirmVirtualIp(virtualIp)),
  );
  const step = toStep(write, toEvent(readiness, known?.reason));
  return isSame && isOfHolder(readiness, known) ? { ...step, isLowPriority: true } : step;
}

/** A keepalived that ends everywhere, and comes back, is told to each Service of its seats. */
function isOfHolder({ published, reason }: Readiness, known: Condition | null): boolean {
  return published.length > 0 && [reason, known?.reason].includes('NoHolder');
}

/** What nodes do soon is not, unless what the condition says is not so. */
function isWorthAWord({ patienceUntilMs }: Readiness, known: Condition | null): boolean {
  if (patienceUntilMs === null) return true;
  return known !== null && known.status !== 'True' && known.reason !== 'WaitingForNodes';
}

function addCondition(
  before: readonly Condition[],
  { status, reason, message }: Readiness,
  { nowMs }: World,
): readonly Condition[] {
  return setCondition(before, { type: addressReady, status, reason, message }, nowMs);
}

function toText(ingress: readonly Ingress[]): string {
  return JSON.stringify(ingress.map(({ ip, ipMode }) => [ip, ipMode]));
}

/** What is there already stays as it is. */
function toIngress(service: Service, { published }: Readiness): Ingress[] {
  const before = getIngress(service);
  return published.map(
    ({ address: { text } }) =>
      before.find(({ ip, ipMode }) => ip === text && ipMode === 'VIP') ?? { ip: text, ipMode: 'VIP' },
  );
}

function toEvent(
  { added, status, reason, message }: Readiness,
  before: string | undefined,
): StepEvent | null {
  if (added.length > 0) {
    const text = added.map(({ address }) => address.text).join(', ');
    return { type: 'Normal', reason: 'AddressReady', message: `All nodes of the pool serve ${text}.` };
  }
  if (reason === before || reason === 'Ready') return null;
  const isInUse = reason === 'AddressInUse' || reason === 'AddressWithdrawn';
  if (isInUse) return { type: 'Warning', reason: 'AddressInUse', message };
  return { type: 'Warning', reason: status === 'True' ? 'NotAsAsked' : 'NoAddress', message };
}

/** Addresses that the Service has, and that its status cannot come to have. */
function leaveSurplus({ service, claims }: Situation, world: World): Step | null {
  const surplus = claims.held.find(
    ({ address }) => !isPublished(service, address) && !mayPublish(service, address, world.settings),
  );
  if (surplus === undefined) return null;
  const uids = new Set([service.metadata.uid]);
  return toStep(patchVirtualIp(surplus.virtualIp, startLeaving(surplus.virtualIp, uids)));
}

function rest({ targets }: Situation, readiness: Readiness): Step {
  const { reason, patienceUntilMs, dueMs, message } = readiness;
  const isLacking = targets.some(({ problem }) => problem !== null);
  if (reason === 'Ready' && !isLacking && dueMs === null) return nothing;
  const untilMs = patienceUntilMs ?? dueMs;
  const isPending = targets.some(({ held, published }) => held !== null && held !== published);
  const lack = isPending ? 'nodes or addresses' : 'addresses';
  return { does: 'wait', waitsFor: isLacking ? lack : 'nodes', why: message, untilMs };
}
