/**
 * Sees that somebody ran iptables-legacy.
 *
 * Goal: look again soon after a foreign change to the legacy tables.
 * Tension: the kernel tells nobody about them. Every iptables-legacy and its restore opens /run/xtables.lock, but
 * Node's fs.watch does not ask for open and close, and the inotify packages do not compile.
 * Compromise: an inotifywait child. It also sees runs that only look, and none in containers with a lock of their
 * own: the loop's slow tick covers those.
 */
import { type Cancel } from '../../control/clock.ts';
import { runInotifywait } from './inotifywait.ts';
import { type Source, type SourceOptions } from './source.ts';

/** Starts the child, and again 1 s to 60 s after each of its deaths; after a gap it triggers, for what was missed. */
export function startLockWatch({ clock, onTrigger, onProblem }: SourceOptions): Source {
  const stopping = new AbortController();
  let cancel: Cancel = () => undefined;
  let deaths = 0;
  let becomeReady: () => void = () => undefined;
  const ready = new Promise<void>((resolve) => {
    becomeReady = resolve;
  });
  let running = run();

  function trigger(): void {
    if (!stopping.signal.aborted) onTrigger('xtables-lock');
  }

  function noteEstablished(): void {
    if (deaths > 0) trigger();
    deaths = 0;
    becomeReady();
  }

  async function run(): Promise<void> {
    const problem = await runInotifywait({
      onEvent: trigger,
      onEstablished: noteEstablished,
      signal: stopping.signal,
    });
    becomeReady();
    if (stopping.signal.aborted) return;
    const isFirst = deaths === 0;
    cancel = clock.schedule(Math.min(firstDelayMs * 2 ** deaths, longestDelayMs), () => {
      // Reported only now: Ctrl-C reaches the child before it reaches us, and that death is nobody's problem.
      if (isFirst) onProblem(problem);
      running = run();
    });
    deaths += 1;
  }

  return {
    ready,
    async stop() {
      stopping.abort();
      cancel();
      await running;
    },
  };
}

const firstDelayMs = 1000;
const longestDelayMs = 60_000;
