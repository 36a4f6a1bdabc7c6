/** Stops what was scheduled; does nothing when it has already run. */
export type Cancel = () => void;

/** Where time comes from (I2). The real one is `systemClock`; test/support/fakes/clock.ts has one that tests turn by hand. */
export interface Clock {
  /** Milliseconds since an arbitrary moment: for durations only. Never goes back, whatever happens to the date. */
  now(): number;
  /** The date and time of day: for what people and files are told. */
  date(): Date;
  /** Calls back once, `delayMs` milliseconds from now at the earliest, never within this call. */
  schedule(delayMs: number, callback: () => void): Cancel;
}

/** The clock of this machine. A scheduled call keeps the process alive. */
export const systemClock: Clock = {
  now: () => performance.now(),
  date: () => new Date(),
  schedule: (delayMs, callback) => {
    const timer = setTimeout(callback, delayMs);
    return () => {
      clearTimeout(timer);
    };
  },
};

/** Waits for so many milliseconds; for none where the number is negative. */
export function sleep(clock: Clock, delayMs: number): Promise<void> {
  return new Promise((resolve) => clock.schedule(Math.max(0, delayMs), resolve));
}

/**
 * Calls back when a limit is over and nothing has come by then. A process that was kept from running for long finds its
 * timer due and the answer waiting: timers come first in Node's loop, so what waits is read before it is called late.
 */
export function scheduleLimit(clock: Clock, limitMs: number, onLimit: () => void): Cancel {
  let immediate: NodeJS.Immediate | undefined;
  const cancel = clock.schedule(limitMs, () => {
    immediate = setImmediate(onLimit);
  });
  return () => {
    cancel();
    clearImmediate(immediate);
  };
}

/** A process that is held up once loses so small a part of the time that an answer has. */
const limitParts = 5;

/**
 * Like scheduleLimit, for an answer that takes several turns of Node's loop (a connection, a question, its answer): time in which
 * this process could not run counts as a fifth of the limit at most, however long it was.
 */
export function scheduleRunningLimit(clock: Clock, limitMs: number, onLimit: () => void): Cancel {
  const startPart = (part: number): Cancel =>
    scheduleLimit(clock, limitMs / limitParts, () => {
      if (part === limitParts) onLimit();
      else cancelPart = startPart(part + 1);
    });
  let cancelPart = startPart(1);
  return () => {
    cancelPart();
  };
}
