import { setTimeout as sleep } from 'node:timers/promises';

/**
 * What a test waited for did not come before the end of a hang. That says nothing about the product on a machine that has too
 * much to do, so the runner may run such a file again. Its message says what was awaited, and what was there instead.
 */
export class WaitedTooLong extends Error {
  override name = 'WaitedTooLong';
}

/** The end of a hang, on a machine that is busy. It comes before Jest's own limit, which does not say what was awaited. */
export const maxWaitMs = 110_000;

/** Asks again and again, until the answer is yes. Rejects with WaitedTooLong, which says what is wrong, when patience is over. */
export async function waitUntil(
  ask: () => boolean | Promise<boolean>,
  wrong: string | (() => string),
): Promise<void> {
  const deadline = performance.now() + maxWaitMs;
  while (!(await ask())) {
    if (performance.now() > deadline) throw new WaitedTooLong(typeof wrong === 'string' ? wrong : wrong());
    await sleep(10);
  }
}

export { sleep };
