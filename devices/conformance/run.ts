import {
  type Check,
  type Need,
  Bench,
  describeError,
  quoteSome,
  type Subject,
  findUnmet,
  CheckFailed,
  type ConformanceTarget,
  testClusters,
} from './bench.ts';
import type { Capabilities, Owned } from '../driver.ts';
import { VipnatError } from '../../lib/errors.ts';

/** What became of a check. */
export type CheckResult = Pick<Check, 'name' | 'title'> &
  (
    | { readonly outcome: 'passed' }
    | { readonly outcome: 'failed'; readonly why: string }
    | { readonly outcome: 'not run'; readonly needs: readonly Need[] }
  );

/** What the suite found. */
export interface ConformanceReport {
  readonly capabilities: Capabilities;
  /** Of each check that was asked for; with `interruption`, of those before it. */
  readonly results: readonly CheckResult[];
  /** Why it ended before its last check; null where it did not. */
  readonly interruption: string | null;
}

/** How the suite runs. */
export interface ConformanceOptions {
  readonly checks: readonly Check[];
  /** Ends it soon: what it made is removed all the same. */
  readonly signal: AbortSignal;
  /** Ends the removal, too. */
  readonly lastSignal: AbortSignal;
  /** Whether balancers of an earlier run are removed first. */
  readonly takesLeftovers: boolean;
  readonly onResult: (result: CheckResult) => void;
}

/** Runs the checks in turn, and removes what each made. @throws VipnatError DEVICE_IN_USE for balancers of the test's clusters, or DEVICE_FAILED */
export async function runConformance(
  target: ConformanceTarget,
  options: ConformanceOptions,
): Promise<ConformanceReport> {
  const { signal, lastSignal } = options;
  // For its capabilities alone.
  const { capabilities } = target.open(testClusters[0], { clock: target.clock, beforeCall: () => undefined });
  const cleaner = new Bench(target, capabilities, lastSignal);
  await takeDevice(cleaner, options);
  const bench = new Bench(target, capabilities, signal);
  const results: CheckResult[] = [];
  const add = (result: CheckResult) => {
    results.push(result);
    options.onResult(result);
  };
  for (const check of options.checks) {
    const { name, title } = check;
    const needs = findUnmet(check.needs, bench);
    if (needs.length > 0) {
      add({ name, title, outcome: 'not run', needs });
      continue;
    }
    const why = await tryCheck(check, bench);
    const problem = await clean(cleaner);
    if (signal.aborted) return { capabilities, results, interruption: problem ?? 'it was interrupted' };
    const reason = why ?? problem;
    add({ name, title, ...(reason === null ? { outcome: 'passed' } : { outcome: 'failed', why: reason }) });
    if (problem !== null) return { capabilities, results, interruption: problem };
  }
  return { capabilities, results, interruption: null };
}

async function takeDevice(cleaner: Bench, { takesLeftovers }: ConformanceOptions): Promise<void> {
  const left = await listAll(cleaner).catch((error: unknown) => {
    const what = `cannot list the balancers of the device: ${describeError(error)}`;
    throw new VipnatError('DEVICE_FAILED', what, { cause: error });
  });
  const names = left.flatMap(([, owned]) => owned.map(({ balancer: { id } }) => `${id.cluster}/${id.name}`));
  if (names.length === 0) return;
  if (!takesLeftovers)
    throw new VipnatError(
      'DEVICE_IN_USE',
      `the device has balancers of the conformance suite: ${quoteSome(names)}. If no other run uses the device, add --remove-leftovers`,
    );
  const problem = await clean(cleaner);
  if (problem !== null) throw new VipnatError('DEVICE_FAILED', problem);
}

async function listAll(cleaner: Bench): Promise<readonly (readonly [Subject, readonly Owned[]])[]> {
  const found: (readonly [Subject, readonly Owned[]])[] = [];
  for (const cluster of testClusters) {
    const subject = cleaner.open({ cluster });
    found.push([subject, await subject.list()]);
  }
  return found;
}

/** What the next check would start with: null where that is nothing. */
async function clean(cleaner: Bench): Promise<string | null> {
  try {
    for (const [subject, owned] of await listAll(cleaner))
      for (const { balancer } of owned) await subject.settleRemoval(balancer.id);
    const left = (await listAll(cleaner)).flatMap(([, owned]) => owned);
    if (left.length === 0) return null;
    return `remove is done, and list still has ${quoteSome(left.map(({ balancer }) => balancer.id.name))}`;
  } catch (error) {
    return `the suite cannot remove its balancers: ${describeError(error)}`;
  }
}

/** Why it failed; null where it passed. */
async function tryCheck(check: Check, bench: Bench): Promise<string | null> {
  try {
    await check.run(bench, bench.shapes);
    return null;
  } catch (error) {
    return error instanceof CheckFailed ? error.message : `an error: ${describeError(error)}`;
  }
}
