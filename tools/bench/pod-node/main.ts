/**
 * What clients lose when a node that has pods of a Service, and none of its addresses, dies or does not reach the API, with vipnat and with
 * kube-proxy alone. Run by `scripts/bench pod-node`; what it measures and how is in docs/benchmarks.md.
 */
import { runBench } from '../shared/run.ts';
import { runOnNodes } from '../shared/real-nodes.ts';
import { setUpNames, setUps } from './set-ups.ts';
import { record } from './record.ts';
import { writeReport } from './report.ts';
import { createPods, measureRound, type Outcome } from './round.ts';
import { describeErrors } from '../shared/failures.ts';

await runBench(() =>
  runOnNodes(
    {
      ...{ name: 'pod-node', setUpNames, record, writeReport },
      prepare: createPods,
      measureRound: (lab, setUp) => measureRound(lab, setUps[setUp]),
      describe: (setUp, outcome) => `${setUp}: ${describe(outcome)}`,
    },
    process.argv.slice(2),
  ),
);

function describe({ sent, failed, failedMs, slowed, slowedMs, held, cut, errors, load }: Outcome): string {
  return [
    `${failed} of ${sent} failed${describeErrors(errors)}, the last one began after ${failedMs} ms`,
    `${slowed} failed or took over a second, the last one began after ${slowedMs} ms`,
    `${cut} of ${held} long ones were reset (load ${load.toFixed(1)})`,
  ].join('; ');
}
