import { type Check } from './check.ts';
import { changeChecks } from './change-checks.ts';
import { endChecks } from './end-checks.ts';
import { extentChecks } from './extent-checks.ts';
import { faultChecks } from './fault-checks.ts';
import { steadyChecks } from './steady-checks.ts';
import { stopChecks } from './stop-checks.ts';

/** All checks, in the order in which they run: what everything else needs comes first. */
export function listChecks(): readonly Check[] {
  return [...steadyChecks, ...changeChecks, ...extentChecks, ...endChecks, ...stopChecks, ...faultChecks];
}
