/**
 * What clients lose while a Deployment behind a Service is updated, with vipnat and with kube-proxy alone. Run by
 * `scripts/bench rollout`; what it measures and how is in docs/benchmarks.md.
 */
import { runBench } from '../shared/run.ts';
import { runOnNodes } from '../shared/real-nodes.ts';
import { setUpNames, setUps } from './set-ups.ts';
import { record } from './record.ts';
import { writeReport } from './report.ts';
import { measureRound, type Outcome } from './round.ts';
import { describeErrors } from '../shared/failures.ts';

await runBench(() =>
  runOnNodes(
    {
      ...{ name: 'rollout', setUpNames, record, writeReport },
      measureRound: (lab, setUp) => measureRound(lab, setUps[setUp]),
      describe: (setUp, outcome) => `${setUps[setUp].title}: ${describe(outcome)}`,
    },
    process.argv.slice(2),
  ),
);

function describe({ sent, failed, windowMs, slow, held, cut, updateMs, load, errors }: Outcome): string {
  return [
    `${failed} of ${sent} failed for ${windowMs.toFixed(0)} ms${describeErrors(errors)}`,
    `${slow} took over a second`,
    `${cut} of ${held} long ones were cut`,
    `the update took ${(updateMs / 1000).toFixed(0)} s (load ${load.toFixed(1)})`,
  ].join('; ');
}
