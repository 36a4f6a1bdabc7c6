import { type Clock } from '../../lib/control/clock.ts';

/** What takes long goes on as long as the device answers; what hangs for longer ends. */
const silenceMs = 120_000;

/** Of one turn. */
export interface SilenceLimit {
  readonly isOver: boolean;
  readonly cancel: () => void;
}

/** Ends what waits for a device that has not been asked anything for two minutes. */
export function limitSilence(
  clock: Clock,
  getCalledMs: () => number,
  aborting: AbortController,
): SilenceLimit {
  const beginMs = clock.now();
  const limit = { isOver: false, cancel: (): void => undefined };
  const watch = (): void => {
    const leftMs = silenceMs - (clock.now() - Math.max(beginMs, getCalledMs()));
    limit.isOver = leftMs <= 0;
    if (limit.isOver) aborting.abort();
    else limit.cancel = clock.schedule(leftMs, watch);
  };
  watch();
  return limit;
}
