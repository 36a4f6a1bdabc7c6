import { type Capabilities } from '../driver.ts';
import { type Bench } from './bench.ts';
import { type TargetActions } from './target.ts';

/** One thing that drivers promise. */
export interface Check {
  /** For reports, scripts and `--only`: it never changes its meaning. */
  readonly name: string;
  /** For people. */
  readonly title: string;
  /** What the device and the target must be able to do. */
  readonly needs: readonly Need[];
  /** Rejects with a CheckFailed where the driver breaks the promise. The device is without balancers of the suite before and after it. */
  readonly run: (bench: Bench) => Promise<void>;
}

/** A capability, or an action of the target. */
export type Need = Exclude<keyof Capabilities, 'methods'> | 'two methods' | keyof TargetActions;

/** The needs that are not met. */
export function findUnmet(
  needs: readonly Need[],
  capabilities: Capabilities,
  actions: TargetActions,
): readonly Need[] {
  return needs.filter((need) => {
    if (need === 'two methods') return capabilities.methods.length < 2;
    return !(need in capabilities
      ? capabilities[need as keyof Capabilities]
      : actions[need as keyof TargetActions] !== undefined);
  });
}
