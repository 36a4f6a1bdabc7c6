/**
 * One cluster of real nodes for all scenarios, which takes half a minute to be raised: each scenario is a file of its own,
 * finds static pods of vipnat and keepalived on every master, and leaves them there.
 */
import { beforeAll, describe } from '@jest/globals';
import { testChart } from './chart.ts';
import { testDaemonSet } from './daemon-set.ts';
import { testFewModules } from './few-modules.ts';
import { runPod } from './run-pod.ts';
import { testStaticPods } from './static-pods.ts';
import { useNodes } from './use-nodes.ts';

const lab = useNodes();

beforeAll(async () => {
  await runPod(lab(), 'worker');
}, 60_000);

describe('static pods', () => {
  testStaticPods(lab);
});

describe('nodes with few modules', () => {
  testFewModules(lab);
});

describe('a DaemonSet', () => {
  testDaemonSet(lab);
});

describe('the chart', () => {
  testChart(lab);
});
