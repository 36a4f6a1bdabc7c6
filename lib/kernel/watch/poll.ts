import { toVipnatError, type VipnatError } from '../../text/errors.ts';
import { type Cancel, type Clock } from '../../control/clock.ts';
import { type Source } from './source.ts';

/** One thing to look at again and again. */
export interface PollOptions<T> {
  readonly clock: Clock;
  /** Looks once. Rejections are reported, and the next look comes all the same. */
  readonly look: () => Promise<T>;
  /** How far apart looks are, in milliseconds: they are at multiples of it on the clock, so that several polls wake the processor together. */
  readonly everyMs: (seen: T | undefined) => number;
  /** Called when a look sees something else than the look before. The first one is what others are compared with. */
  readonly onChange: () => void;
  /** Called with the first of a row of failures. */
  readonly onProblem: (problem: VipnatError) => void;
}

/** Starts to poll at once. Looks never overlap: the next one is planned when the one before has ended. */
export function startPoll<T extends string | number | null>(options: PollOptions<T>): Source {
  let seen: T | undefined;
  let isFailing = false;
  let isStopped = false;
  let cancel: Cancel = () => undefined;
  let looking = look();
  const ready = looking;

  function compare(now: T): void {
    const isChange = seen !== undefined && seen !== now;
    isFailing = false;
    seen = now;
    if (isChange) options.onChange();
  }

  function report(error: unknown): void {
    if (isFailing) return;
    isFailing = true;
    options.onProblem(toVipnatError(error, 'NETLINK_FAILED', "reading the kernel's state"));
  }

  async function look(): Promise<void> {
    const [result] = await Promise.allSettled([options.look()]);
    // Stopped meanwhile: an answer that comes late is nobody's.
    if (isStopped) return;
    if (result.status === 'fulfilled') compare(result.value);
    else report(result.reason);
    cancel = options.clock.schedule(untilNextMultiple(options.clock.now(), options.everyMs(seen)), () => {
      looking = look();
    });
  }

  return {
    ready,
    async stop() {
      isStopped = true;
      cancel();
      await looking;
    },
  };
}

/** A timer may fire a little early: a multiple that is nearly reached counts as this look's own. */
function untilNextMultiple(nowMs: number, everyMs: number): number {
  const rest = Math.ceil(everyMs - (nowMs % everyMs));
  return rest > everyMs / 2 ? rest : rest + everyMs;
}
