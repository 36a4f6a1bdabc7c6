import type { Clock } from '../../../lib/clock.ts';
import type { Listener } from './apiserver.ts';

type SentKind = 'questions' | 'connects' | 'drainChecks' | 'pings' | 'pingConnections';

/** When what was sent to one apiserver, in milliseconds of the clock, and what became of it. */
export interface Sent extends Readonly<Record<SentKind, number[]>> {
  /** How often its answers turned bad: the first bad one, and each after a good one. */
  badTimes: number;
  /** How often connects turned: to open, or to no answer. */
  turns: number;
}

/** Writes down what is sent to FakeApiservers. */
export class SentLog {
  readonly #sent = new Map<string, Sent>();
  readonly #lastAnswers = new Map<string, string>();
  readonly #lastConnects = new Map<string, string>();

  listen(clock: Clock): Listener {
    const note = (kind: SentKind) => (endpoint: string) => void this.to(endpoint)[kind].push(clock.now());
    return {
      onConnect: note('connects'),
      onDrainCheck: note('drainChecks'),
      onPing: note('pings'),
      onPingConnection: note('pingConnections'),
      onQuestion: note('questions'),
      onConnected: (endpoint, kind) => {
        const isTurn = this.#lastConnects.get(endpoint) !== kind && ['open', 'silent'].includes(kind);
        if (isTurn) this.to(endpoint).turns += 1;
        this.#lastConnects.set(endpoint, kind);
      },
      onAnswer: (endpoint, kind) => {
        if (kind === 'failing' && this.#lastAnswers.get(endpoint) !== kind) this.to(endpoint).badTimes += 1;
        if (kind === 'failing' || kind === 'ready') this.#lastAnswers.set(endpoint, kind);
      },
    };
  }

  to(endpoint: string): Sent {
    const sent = this.#sent.get(endpoint) ?? {
      ...{ questions: [], connects: [], drainChecks: [], pings: [], pingConnections: [] },
      ...{ badTimes: 0, turns: 0 },
    };
    this.#sent.set(endpoint, sent);
    return sent;
  }

  clear(): void {
    this.#sent.clear();
  }
}

/** How many there were at most within a time, wherever it begins. */
export function countMost(times: readonly number[], withinMs: number): number {
  let first = 0;
  let most = 0;
  times.forEach((atMs, index) => {
    while (atMs - (times[first] ?? 0) >= withinMs) first += 1;
    most = Math.max(most, index - first + 1);
  });
  return most;
}
