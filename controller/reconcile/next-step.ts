import { nothing, type Step, type StepKey } from './step.ts';
import { type World } from './world.ts';

/** The one next step of a key. Pure; it costs what the key's own objects and its pool cost, whatever else there is. */
export function nextStep(_key: StepKey, _world: World): Step {
  return nothing;
}
