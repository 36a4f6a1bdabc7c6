/**
 * What would be decided if an apiserver's process ended, decided ahead.
 *
 * Goal: a write begins a moment after an end was seen.
 * Tension: on a busy machine a decision takes milliseconds, most of all one that is rare. What was decided ahead may be outdated.
 * Compromise: a decision depends on its input alone. So it counts for exactly the input that it was made for. One is made at a time, and probes are
 * read in between: beside 20,000 rules a decision takes 50 ms.
 */
import { type Clock, sleep } from '../../lib/control/clock.ts';
import { type Config } from '../../config/config.ts';
import { type Assessment, assess, type ReconcileInput } from '../decide/assess.ts';
import { endVerdict } from '../health/end.ts';
import { type HealthView } from '../health/usable.ts';

/** Assessments of ends that may come: one for each apiserver that is ready, from the last look that found all in sync. */
export class Foresight {
  readonly #config: Config;
  readonly #clock: Clock;
  #input: ReconcileInput | null = null;
  readonly #keyToAssessment = new Map<string, Assessment>();

  constructor(config: Config, clock: Clock) {
    this.#config = config;
    this.#clock = clock;
  }

  /** Decides ahead, in place of what was decided before. Takes as long as so many decisions. It ends early where another one begins, or by `forget`. */
  async foresee(input: ReconcileInput): Promise<void> {
    this.forget();
    this.#input = input;
    for (const health of listEnds(input.health)) {
      await sleep(this.#clock, 0);
      if (this.#input !== input) return;
      const ended = { ...input, health };
      this.#keyToAssessment.set(describe(ended), assess(ended, this.#config));
    }
  }

  /** Forgets what was decided ahead. */
  forget(): void {
    this.#input = null;
    this.#keyToAssessment.clear();
  }

  /** What `assess` would answer, if that was decided ahead; else null. */
  find(input: ReconcileInput): Assessment | null {
    const { observation, localRoutes, candidates, memory } = input;
    const before = this.#input;
    const isSame =
      before !== null &&
      before.observation === observation &&
      before.localRoutes === localRoutes &&
      before.candidates === candidates &&
      before.memory === memory;
    return isSame ? (this.#keyToAssessment.get(describe(input)) ?? null) : null;
  }
}

/** The health of all after the end of one. */
function listEnds(health: HealthView): HealthView[] {
  return [...health].flatMap(([text, one]) =>
    one.state === 'ready' ? [new Map([...health, [text, { ...one, ...endVerdict }]])] : [],
  );
}

/** Another text for another input, of what is made anew for each. */
function describe({ health, weights, open }: ReconcileInput): string {
  const shares = [...(weights ?? [])].map(([vip, byApiserver]) => [vip, byApiserver && [...byApiserver]]);
  return JSON.stringify([[...health], shares, weights === undefined, open && [...open]]);
}
