import { LabError } from '../../lab/settings/error.ts';
import { setTimeout as sleep } from 'node:timers/promises';

/** kube-proxy may hang on a dead connection for 45 s, and an apiserver is an endpoint 10 s after its start. */
const limitMs = 180_000;
const restMs = 250;

/**
 * Waits until something is so of a lab.
 * @throws LabError with what it is when it does not become so.
 */
export async function waitUntil(what: string, isSo: () => Promise<boolean>): Promise<void> {
  const until = performance.now() + limitMs;
  while (!(await isSo())) {
    if (performance.now() > until) throw new LabError(`not so after ${limitMs / 1000} s: ${what}`);
    await sleep(restMs);
  }
}
