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

/** A capability, an action of the target, or what either has to have of something. */
export type Need =
  Exclude<keyof Capabilities, 'methods'> | 'two methods' | 'IPv6 addresses' | keyof TargetActions;

/** The needs that are not met. */
export function findUnmet(needs: readonly Need[], bench: Bench): readonly Need[] {
  const { capabilities, actions } = bench;
  return needs.filter((need) => {
    if (need === 'two methods') return capabilities.methods.length < 2;
    if (need === 'IPv6 addresses') return !bench.hasIpv6Addresses;
    return !(need in capabilities
      ? capabilities[need as keyof Capabilities]
      : actions[need as keyof TargetActions] !== undefined);
  });
}
