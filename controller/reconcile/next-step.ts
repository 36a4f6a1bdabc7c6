import { type StepKey } from '../world/keys.ts';
import { type World } from '../world/world.ts';
import { isServed } from './may-publish.ts';
import { nextPoolStep } from './pool-step.ts';
import { releaseService } from './release-service.ts';
import { serveService } from './serve-service.ts';
import { nothing, type Step } from './step.ts';
import { nextVirtualIpStep } from './virtual-ip-step.ts';

/** The one next step of a key. Pure; it costs what the key's own objects and its pool cost, whatever else there is. */
export function nextStep(key: StepKey, world: World): Step {
  switch (key.kind) {
    case 'Service':
      return nextServiceStep(`${key.namespace}/${key.name}`, world);
    case 'VirtualIP':
      return nextVirtualIpStep(key.name, world);
    case 'AddressPool':
      return nextPoolStep(key.name, world);
  }
}

/** Of a Service that is gone: the addresses that it had are looked at for themselves. */
function nextServiceStep(key: string, world: World): Step {
  const service = world.services.get(key);
  if (service === undefined) return nothing;
  return isServed(service, world.settings.isDefaultClass)
    ? serveService(service, world)
    : releaseService(service, world);
}
