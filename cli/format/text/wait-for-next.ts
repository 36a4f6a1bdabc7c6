import { systemClock } from '../../../lib/control/clock.ts';
import { watchStdoutReader } from '../../../lib/kernel/host/stdout-reader.ts';

/** What a terminal gets before each screen of --watch. */
export const clearScreen = '\u001b[H\u001b[2J';

/** The next screen comes soon enough to find out by itself that nobody reads it. */
const soonMs = 1000;

/** Waits for the next screen of --watch, or until nobody reads standard output any more. */
export async function waitForNext(watchMs: number): Promise<'due' | 'reader gone'> {
  return await new Promise((resolve) => {
    const cancelWatch =
      watchMs <= soonMs
        ? () => undefined
        : watchStdoutReader(() => {
            cancelDue();
            resolve('reader gone');
          });
    const cancelDue = systemClock.schedule(watchMs, () => {
      cancelWatch();
      resolve('due');
    });
  });
}
