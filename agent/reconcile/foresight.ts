/**
 * What would be decided if an apiserver's process ended, decided ahead.
 *
 * Goal: a write begins a moment after an end was seen.
 * Tension: on a busy machine a decision takes milliseconds, most of all one that is rare. What was decided ahead may be outdated.
 * Compromise: a decision depends on its input alone. So it counts for exactly the input that it was made for.
 */
import { type Config } from '../../config/config.ts';
import { type Assessment, assess, type ReconcileInput } from '../decide/assess.ts';
import { endVerdict } from '../health/end.ts';
import { type HealthView } from '../health/usable.ts';

/** Assessments of ends that may come: one for each apiserver that is ready, from the last look that found all in sync. */
export class Foresight {
  readonly #config: Config;
  #input: ReconcileInput | null = null;
  #keyToAssessment: ReadonlyMap<string, Assessment> = new Map();

  constructor(config: Config) {
    this.#config = config;
  }

  /** Decides ahead, in place of what was decided before. Takes as long as so many decisions. */
  foresee(input: ReconcileInput): void {
    this.#input = input;
    this.#keyToAssessment = new Map(
      listEnds(input.health).map((health) => {
        const ended = { ...input, health };
        return [describe(ended), assess(ended, this.#config)];
      }),
    );
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
