/**
 * Measures looks and changes in the network namespace it runs in, with the product's own pieces on the real kernel.
 * Arguments: what `--iptables` takes, how many VIPs, how many times, and `few` or `all` for what a look reads. Prints a RulesReport. Run by
 * main.ts.
 */
import { readConfig } from '../../../config/load.ts';
import { type HealthView, unprobed } from '../../../agent/health/usable.ts';
import { createKernel } from '../../../lib/kernel/kernel.ts';
import { findCandidates } from '../../../agent/endpoints.ts';
import { emptyState } from '../../../agent/decide/decision.ts';
import { assess, everything, observeAndAssess } from '../../../agent/read-host.ts';
import { applyPlan } from '../../../agent/sync.ts';
import { noApi } from '../../../agent/api.ts';

/** What one run found: milliseconds, each time. */
export interface RulesReport {
  /** From the start of a look to its plan: everything is read and understood. */
  readonly pollMs: readonly number[];
  /** From an apiserver's death to the end of the write: decided on what the last look saw. */
  readonly changeMs: readonly number[];
}

const [iptables, vipCount, times, reads, ...rest] = process.argv.slice(2);
// Without its arguments it was not started by main.ts, and would write to this machine's own rules.
if (reads === undefined || rest.length > 0) throw new Error('to be run by scripts/bench rules');
const vips = Array.from(
  { length: Number(vipCount) },
  (_, index) => `10.9.${index >> 7}.${(index % 128) + 1}`,
);
const { config, problems } = await readConfig({
  flags: {
    vip: vips,
    iptables,
    endpoints: ['10.0.0.11:6443,10.0.0.12:6443,10.0.0.13:6443'],
    proxyMode: 'none',
  },
  environment: {},
  file: undefined,
});
if (problems.length > 0) throw new Error(problems.join('\n'));

const oneDead: HealthView = new Map([
  ['10.0.0.13:6443', { state: 'dead', reason: 'measured', staleConnections: 'none' }],
]);
const kernel = createKernel({ onProblem: () => undefined });
const report = { pollMs: [] as number[], changeMs: [] as number[] };
for (let round = 0; round <= Number(times); round += 1) {
  const { observation, ms } = await lookOnce();
  const health = round % 2 === 0 ? unprobed : oneDead;
  const started = performance.now();
  const candidates = findCandidates(observation, emptyState, config);
  const { plan } = assess({ observation, localRoutes: null, candidates, health, memory: emptyState }, config);
  await applyPlan(kernel, plan);
  // The first round writes all of it.
  if (round === 0) continue;
  report.pollMs.push(ms);
  report.changeMs.push(performance.now() - started);
}
process.stdout.write(`${JSON.stringify(report satisfies RulesReport)}\n`);

async function lookOnce() {
  const started = performance.now();
  const ports = {
    kernel,
    askProxyMode: () => Promise.resolve(null),
    health: { watch: () => unprobed },
    api: noApi,
  };
  const asked = reads === 'all' ? ([everything] as const) : [];
  const { observation } = await observeAndAssess(ports, config, emptyState, ...asked);
  return { observation, ms: performance.now() - started };
}
