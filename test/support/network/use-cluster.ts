import { afterAll, afterEach, beforeAll, beforeEach } from '@jest/globals';
import { Cluster } from './cluster.ts';

/** Making a cluster, starting agents in it and closing it takes seconds, and on a busy machine many. */
const limitMs = 180_000;

/** How long a cluster lives: for one test, or for all tests of its block. */
const hooks = {
  'each test': { before: beforeEach, after: afterEach },
  'all tests': { before: beforeAll, after: afterAll },
} as const;

/**
 * A cluster that is up for each or for all tests of this block, when `prepare` has done its part. It is closed after them, also when
 * that failed half-way.
 */
export function useCluster(
  life: keyof typeof hooks,
  prepare: (cluster: Cluster) => unknown = () => undefined,
): Cluster {
  const cluster = new Cluster();
  hooks[life].before(async () => {
    await cluster.open();
    await prepare(cluster);
  }, limitMs);
  hooks[life].after(() => cluster.close(), limitMs);
  return cluster;
}
