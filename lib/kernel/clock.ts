/** Stops what was scheduled; does nothing when it has already run. */
export type Cancel = () => void;

/** Where time comes from (I2). The real one is `systemClock`; test/fakes/clock.ts has one that tests turn by hand. */
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
