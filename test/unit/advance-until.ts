import { type FakeClock } from '../support/fakes/clock.ts';

/** Lets time pass in steps until something is so. Says what it awaited when an hour of the clock, or a minute of this machine, are not enough. */
export async function advanceUntil(
  clock: FakeClock,
  what: string,
  isSo: () => boolean,
  step: number | (() => Promise<void>) = 10,
): Promise<void> {
  const [since, startedAt] = [clock.now(), performance.now()];
  while (!isSo()) {
    const passedMs = clock.now() - since;
    if (passedMs > 3_600_000 || performance.now() - startedAt > 60_000)
      throw new Error(`${what}: not so after ${passedMs} ms`);
    await (typeof step === 'number' ? clock.advance(step) : step());
  }
}
