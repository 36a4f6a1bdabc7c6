import { toLeaseName } from '../../lib/services/node-report.ts';
import { type StepKey } from '../world/keys.ts';
import { type World } from '../world/world.ts';
import { nextLeaseStep } from './lease-step.ts';
import { isServed } from './may-publish.ts';
import { nextPoolStep } from './pool-step.ts';
import { releaseService } from './release-service.ts';
import { serveService } from './serve-service.ts';
import { nothing, type Step } from './step.ts';
import { type Steps } from './steps.ts';
import { nextVirtualIpStep } from './virtual-ip-step.ts';

/** The steps of Services, their addresses and pools. */
export const serviceSteps: Steps = {
  next: nextStep,
  listKeys: ({ pools, virtualIps, services, silentNodes }) => [
    ...[...silentNodes.keys()].map((node) => `Lease/${toLeaseName(node)}`),
    ...[...pools.keys()].map((name) => `AddressPool/${name}`),
    ...[...virtualIps.keys()].map((name) => `VirtualIP/${name}`),
    ...[...services.keys()].map((key) => `Service/${key}`),
  ],
  owns: ({ kind }) => kind !== 'Pod' && kind !== 'EarlySlices',
  wakeMs: 0,
};

/** The one next step of a key of these. Pure. */
export function nextStep(key: StepKey, world: World): Step {
  switch (key.kind) {
    case 'Service':
      return nextServiceStep(`${key.namespace}/${key.name}`, world);
    case 'VirtualIP':
      return nextVirtualIpStep(key.name, world);
    case 'AddressPool':
      return nextPoolStep(key.name, world);
    case 'Lease':
      return nextLeaseStep(key.name, world);
    case 'EarlySlices':
    case 'Pod':
      return nothing;
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
