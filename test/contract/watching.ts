import { setTimeout as sleep } from 'node:timers/promises';
import { type Trigger } from '../../lib/kernel/port.ts';
import { type KernelSubject } from './subject.ts';

/** Milliseconds: longer than any source but IPVS and forwarding takes to notice. */
const quietMs = 400;

/** Milliseconds: longer than any source takes to notice. */
export const slowQuietMs = 1500;

/** Milliseconds: no measurement, but the end of a test whose trigger does not come. */
const maxWaitMs = 120_000;

/** The triggers of what is done and is to trigger nothing, each once, in the order in which they came. */
export async function watchQuiet(
  subject: KernelSubject,
  act: () => Promise<void>,
  waitMs = quietMs,
): Promise<Trigger[]> {
  return await watchUntil(subject, act, () => sleep(waitMs));
}

/** The triggers of a change, each once, in the order in which they came: the awaited one, however late, and what else comes. */
export async function watchChange(
  subject: KernelSubject,
  awaited: Trigger,
  act: () => Promise<void>,
): Promise<Trigger[]> {
  return await watchUntil(subject, act, async (triggers) => {
    const deadline = performance.now() + maxWaitMs;
    while (!triggers.has(awaited) && performance.now() < deadline) await sleep(10);
    await sleep(quietMs);
  });
}

async function watchUntil(
  subject: KernelSubject,
  act: () => Promise<void>,
  wait: (triggers: ReadonlySet<Trigger>) => Promise<void>,
): Promise<Trigger[]> {
  const triggers = new Set<Trigger>();
  const watch = subject.kernel.watch((trigger) => triggers.add(trigger));
  await watch.ready;
  await act();
  await wait(triggers);
  await watch.stop();
  return [...triggers];
}
