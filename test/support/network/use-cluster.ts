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
 * Makes a cluster before each or all tests of this block, and hands it to `prepare`; closes it after them, also when `prepare` failed
 * half-way.
 */
export function useCluster(
  life: keyof typeof hooks,
  prepare: (cluster: Cluster) => Promise<unknown> | undefined,
): void {
  let cluster: Cluster | undefined;
  hooks[life].before(async () => {
    cluster = await Cluster.create();
    await prepare(cluster);
  }, limitMs);
  hooks[life].after(async () => {
    await cluster?.close();
    cluster = undefined;
  }, limitMs);
}
