/**
 * One cluster of real nodes for all scenarios, which takes half a minute to be raised: each scenario is a file of its own,
 * finds static pods of vipnat and keepalived on every master, and leaves them there.
 */
import { describe } from '@jest/globals';
import { testStaticPods } from './static-pods.ts';
import { useNodes } from './use-nodes.ts';

const lab = useNodes();

describe('static pods', () => {
  testStaticPods(lab);
});
