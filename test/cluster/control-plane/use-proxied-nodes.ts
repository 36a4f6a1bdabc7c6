import { afterAll, beforeAll, jest } from '@jest/globals';
import { tell } from '../../support/lab/test-lab.ts';
import { ProxiedNodes } from './proxied-nodes.ts';
import { type ProxiedPlan } from './proxied-plan.ts';
import { labLimitMs } from '../../support/lab/limits.ts';

// A test file that needs longer says so after it.
jest.setTimeout(labLimitMs);

/** Has the nodes of a plan up for the tests of a file, with balancers. */
export function useProxiedNodes(plan: ProxiedPlan): () => ProxiedNodes {
  let raised: ProxiedNodes | undefined;
  beforeAll(async () => {
    raised = await ProxiedNodes.raise(plan);
    await raised.startBalancers();
    tell(`the logs are in ${raised.folder} until the next run`);
  }, 15 * 60_000);
  afterAll(async () => {
    await raised?.end();
  });
  return () => {
    if (raised === undefined) throw new Error('nothing is up');
    return raised;
  };
}
