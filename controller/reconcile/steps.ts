import { type StepKey } from '../world/keys.ts';
import { type World } from '../world/world.ts';
import { type Step } from './step.ts';

/** What one reconciler does: which keys are its own, and the next step of each. */
export interface Steps {
  /** The one next step of a key. Pure; it costs what the key's own objects and its pool cost, whatever else there is. */
  readonly next: (key: StepKey, world: World) => Step;
  /** All keys of a world, as the queue has them. */
  readonly listKeys: (world: World) => string[];
  readonly owns: (key: StepKey) => boolean;
  /** For how long what keys wait for is gathered before they are looked at. */
  readonly wakeMs: number;
}
