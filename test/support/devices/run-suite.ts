import { listChecks } from '../../../lib/devices/conformance/list-checks.ts';
import { type CheckResult, runConformance } from '../../../lib/devices/conformance/run.ts';
import { type ConformanceTarget } from '../../../lib/devices/conformance/target.ts';

/** What each check finds, on a device that has nothing of the suite yet. */
export async function runSuite(target: ConformanceTarget): Promise<readonly CheckResult[]> {
  const { signal } = new AbortController();
  const { results } = await runConformance(target, {
    checks: listChecks(),
    signal,
    lastSignal: signal,
    takesLeftovers: false,
    onResult: () => undefined,
  });
  return results;
}

/** The names of the checks with an outcome. */
export function nameChecks(results: readonly CheckResult[], outcome: CheckResult['outcome']): string[] {
  return results.filter((result) => result.outcome === outcome).map(({ name }) => name);
}
