/**
 * One cluster of real nodes for all scenarios, which takes half a minute to be raised: each scenario is a file of its own,
 * finds static pods of vipnat and keepalived on every master, and leaves them there.
 */
import { beforeAll, describe, jest } from '@jest/globals';
import { labLimitMs } from '../../../support/lab/limits.ts';
import { testApiserverPod } from './apiserver-pod.ts';
import { testChart } from './chart.ts';
import { testDaemonSet } from './daemon-set.ts';
import { testExistingCluster } from '../install/existing-cluster.ts';
import { testInstall } from '../install/install.ts';
import { useKeepalivedAlone } from '../install/keepalived-alone.ts';
import { testLeastPrivilege } from './least-privilege.ts';
import { prepareLoad } from '../measure/load.ts';
import { testMoves } from './moves.ts';
import { testPower } from './power.ts';
import { runPod } from '../pods/run-pod.ts';
import { testServices } from '../services/services.ts';
import { testStaticPods } from './static-pods.ts';
import { useNodes } from './use-nodes.ts';

jest.setTimeout(labLimitMs);

const lab = useNodes();

beforeAll(async () => {
  await runPod(lab(), 'worker');
  await prepareLoad(lab());
});

describe('static pods', () => {
  testStaticPods(lab);

  describe('of vipnat, which have least privilege', () => {
    testLeastPrivilege(lab);
  });
});

describe('a DaemonSet', () => {
  testDaemonSet(lab);
});

describe('the chart', () => {
  testChart(lab);
});

describe('nodes with keepalived alone', () => {
  const alone = useKeepalivedAlone(lab);

  describe('the quickstart for an existing cluster', () => {
    testExistingCluster(lab, alone);
  });

  describe('what the documents have typed', () => {
    testInstall(lab, alone);
  });
});

describe('Services', () => {
  testServices(lab);
});

describe("an apiserver's static pod", () => {
  testApiserverPod(lab);
});

describe('the VIP moves', () => {
  testMoves(lab);
});

describe("the VIP's holder", () => {
  testPower(lab);
});
