/** What one device is to do about one Service. Pure. */
import { chooseDevice, listHolders, type LoadBalancerDevice } from '../../lib/services/devices.ts';
import { type Service } from '../../lib/services/services.ts';
import { findBalancer } from '../cache/device-parts.ts';
import { getIngress, isServed } from '../cache/object-parts.ts';
import { type World } from '../cache/world.ts';
import { isOfDevice } from '../kinds/device-service.ts';

/** What is to be done. */
export type Intent =
  /** It is to have the Service. */
  | 'have'
  /** It is to have nothing of it. */
  | 'clear'
  /** It is left as it is: others have to do something first, or there is nothing to do. */
  | 'leave';

/**
 * The Service is undefined where none has its uid any more. `isThere` says whether the device has, or may have, something of it.
 *
 * Nothing is put there before the Service's finalizer says so, and nothing is taken away from a Service that lives before whatever follows
 * serves it, and its status says so.
 */
export function judgeService(
  service: Service | undefined,
  {
    device,
    isThere,
    world,
  }: { readonly device: LoadBalancerDevice; readonly isThere: boolean; readonly world: World },
): Intent {
  if (service === undefined) return isThere ? 'clear' : 'leave';
  const { name } = device.metadata;
  const chosen = chooseDevice(service, world.settings.defaultDevice);
  const isHolder = listHolders(service).includes(name);
  if (chosen === name) return isHolder ? 'have' : 'leave';
  if (!isHolder && !isThere) return 'leave';
  return isFollowed(service, chosen, world) ? 'clear' : 'leave';
}

/** Whether what follows serves, or nothing does. */
function isFollowed(service: Service, chosen: string | null, world: World): boolean {
  const ingress = getIngress(service);
  if (chosen === null)
    return !isServed(service, world.settings.isDefaultClass) || ingress.some((one) => !isOfDevice(one));
  const next = findBalancer(world, chosen, service);
  return next?.standing === 'serves' && next.addresses.every((text) => ingress.some(({ ip }) => ip === text));
}
