import { type Clock } from '../../lib/control/clock.ts';
import { type EventRecorder } from '../../lib/telemetry/recorder.ts';
import { type LogFields, type Logger } from '../../lib/telemetry/logger.ts';

/** A fight is over when nothing had to be put right for this long. */
const peaceMs = 60_000;

/** A fight with another program that undoes what vipnat does, as people hear of it: one loud line until it is over (I9). */
export class Fight {
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #events: EventRecorder;
  #isOn = false;
  #lastRepair = 0;

  constructor({ logger, clock, events }: { logger: Logger; clock: Clock; events: EventRecorder }) {
    this.#logger = logger;
    this.#clock = clock;
    this.#events = events;
  }

  get isOn(): boolean {
    return this.#isOn;
  }

  /** To be called when something was put right. */
  noteRepair(): void {
    this.#lastRepair = this.#clock.now();
  }

  /** To be called when something is not put right, as that was done too often. Says what happened and what comes next, once in a fight. */
  goOn(what: string, next: string, fields: LogFields = {}): void {
    this.noteRepair();
    if (this.#isOn) return;
    this.#isOn = true;
    this.#logger.error(`${what}. ${next}`, fields);
    this.#events.record('RulesContested', what);
  }

  /** To be called when nothing has to be put right. */
  endAfterPeace(): void {
    if (!this.#isOn || this.#clock.now() - this.#lastRepair < peaceMs) return;
    const line = `no program has undone vipnat's rules for ${peaceMs / 1000} s`;
    this.#logger.info(line);
    this.#events.record('RulesUncontested', line);
    this.#isOn = false;
  }
}
