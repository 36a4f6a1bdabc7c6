import { type StepKey } from '../world/keys.ts';
import { type World } from '../world/world.ts';
import { nothing, type Step } from './step.ts';

/** The one next step of a key. Pure; it costs what the key's own objects and its pool cost, whatever else there is. */
export function nextStep(key: StepKey, world: World): Step {
  return world.services.has(key.kind) ? nothing : nothing;
}
