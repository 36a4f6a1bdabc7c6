import { type Trigger } from '../../lib/kernel/port.ts';
import { type KernelSubject } from './subject.ts';

/** Milliseconds: longer than any source but IPVS and forwarding takes to notice. */
const quietMs = 400;

/** Milliseconds: longer than any source takes to notice. */
export const slowQuietMs = 1500;

/** The triggers of what is done, each once, in the order in which they came. */
export async function watchDuring(
  subject: KernelSubject,
  act: () => Promise<void>,
  waitMs = quietMs,
): Promise<Trigger[]> {
  const triggers = new Set<Trigger>();
  const watch = subject.kernel.watch((trigger) => triggers.add(trigger));
  await watch.ready;
  await act();
  await sleep(waitMs);
  await watch.close();
  return [...triggers];
}

/** Resolves after that time. */
export async function sleep(ms: number): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, ms));
}
