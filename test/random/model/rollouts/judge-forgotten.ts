/** Whether an open connection may have been forgotten, by the objects of the API. */
import type { World } from './world.ts';
import type { Machine } from './machine.ts';
import type { Connection } from './machine-kernel.ts';
import { isSelected } from './slice-controller.ts';
import type { StoredObject } from '../../../support/fakes/object-api.ts';
import type { RunningPod } from './kubernetes.ts';
import { readDuration, services } from '../../../../lib/api/service.ts';
import { isTrue } from '../controller/pod-facts.ts';
import { evicted } from './people.ts';

/** What is open for so long, and does not change, is not to be forgotten. */
const steadyMs = 30_000;

/** What is wrong with it; nothing where it may. */
export function judgeForgotten(world: World, machine: Machine, connection: Connection): string[] {
  world.count('forgotten');
  const { service, address, pod } = connection;
  const running = world.kubernetes.uidToPod.get(pod ?? '');
  const owner = findOwner(world, connection);
  if (running === undefined || owner === null) return [];
  const object = world.api.objects.list('Pod').get(running.key);
  if (object === undefined) return [];
  const isGone = !isSelected(service, owner, object) || isDrained(world, owner, { object, running });
  if (isGone || !isSteady(world, machine, running)) return [];
  const what = object.metadata.deletionTimestamp === undefined ? 'which is well' : 'which drains';
  return [
    `an open connection of ${service} to ${address} (${running.key}), ${what}, is forgotten on ${machine.name}`,
  ];
}

/** The Service, if the address is still its own. */
function findOwner({ traffic, api }: World, { service, vip }: Connection): StoredObject | null {
  const owner = api.objects.list('Service').get(service) ?? null;
  const isServed = traffic.listServices().some((one) => one.key === service && one.vip === vip);
  return isServed && owner?.spec?.['type'] === 'LoadBalancer' ? owner : null;
}

/** Since when a pod has no weight is not known here. */
function isDrained(
  { clock }: World,
  owner: StoredObject,
  { object, running }: { readonly object: StoredObject; readonly running: RunningPod },
): boolean {
  const { ms } = readDuration(services.schema.parse(owner), 'drainTimeout');
  if (ms === null) return false;
  const { isEnding, endingMs } = running.machine;
  if (isEnding || clock.now() - endingMs < steadyMs || isTrue(object, evicted)) return true;
  const { metadata } = object;
  if (metadata.annotations?.['vipnat.io/weight'] === '0') return true;
  return clock.date().getTime() - Date.parse(metadata.deletionTimestamp ?? '') >= ms;
}

/** Neither machine was troubled lately, and the pod has not changed, unless it ends. */
function isSteady(
  { clock, api }: World,
  machine: Machine,
  { key, machine: own, changedMs }: RunningPod,
): boolean {
  const isLong = (sinceMs: number) => clock.now() - sinceMs >= steadyMs;
  const isEnding = api.objects.list('Pod').get(key)?.metadata.deletionTimestamp !== undefined;
  return (
    [own, machine].every(({ isUp, troubledMs }) => isUp && isLong(troubledMs)) &&
    (isEnding || isLong(changedMs))
  );
}
