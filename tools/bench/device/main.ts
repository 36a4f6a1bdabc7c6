/**
 * What clients lose while the members behind a pair of HAProxy are replaced, and the active unit fails meanwhile. Run by
 * `scripts/bench device`; what it measures and how is in docs/benchmarks.md.
 */
import { runBench, say } from '../shared/run.ts';
import { parseRunOptions, listMissingRounds } from '../shared/options.ts';
import { setUpNames, type SetUpName, setUps } from './set-ups.ts';
import { requireHaproxy } from '../shared/programs.ts';
import { record } from './record.ts';
import { writeReport } from './report.ts';
import { HaproxyPair } from './pair.ts';
import { measureRound, type Outcome } from './round.ts';
import { describeErrors } from '../shared/failures.ts';

await runBench(async () => {
  const options = parseRunOptions(process.argv.slice(2), setUpNames);
  requireHaproxy();
  if (options.isFresh) record.remove(({ setUp }) => options.setUps.includes(setUp));
  const missing = listMissingRounds(options, record.read());
  if (missing.length > 0) await measureAll(missing);
  else say('all rounds are on record, --fresh measures them again');
  say(`wrote ${await writeReport()}`);
});

async function measureAll(missing: readonly SetUpName[]): Promise<void> {
  const pair = await HaproxyPair.start();
  try {
    for (const setUp of missing) {
      const outcome = await measureRound(pair, setUps[setUp]);
      record.append({ setUp, at: new Date().toISOString(), ...outcome });
      say(`${setUp}: ${describe(outcome)}`);
    }
  } finally {
    await pair.stop();
  }
}

function describe(outcome: Outcome): string {
  const { sent, failed, failedMs, slowed, slowedMs, stale, errors, updateMs, load } = outcome;
  return [
    `${failed} of ${sent} failed${describeErrors(errors)}, the last one began after ${failedMs} ms`,
    `${slowed} failed or took over a second, the last one began after ${slowedMs} ms`,
    `${stale} came to a pod that was gone`,
    `the update took ${(updateMs / 1000).toFixed(1)} s (load ${load.toFixed(1)})`,
  ].join('; ');
}
