import type { ConformanceTarget } from '../../../devices/conformance/bench.ts';
import { type CheckResult, runConformance } from '../../../devices/conformance/run.ts';
import { listChecks } from '../../../devices/conformance/steady-checks.ts';

/** What each check finds, or one of them, on a device that has nothing of the suite yet. */
export async function runSuite(target: ConformanceTarget, only?: string): Promise<readonly CheckResult[]> {
  const { signal } = new AbortController();
  const usual = { lastSignal: signal, takesLeftovers: false, onResult: () => undefined };
  const checks = listChecks().filter(({ name }) => name === (only ?? name));
  const { results } = await runConformance(target, { ...usual, checks, signal });
  return results;
}

/** The names of the checks with an outcome. */
export function nameChecks(results: readonly CheckResult[], outcome: CheckResult['outcome']): string[] {
  return results.filter((result) => result.outcome === outcome).map(({ name }) => name);
}
