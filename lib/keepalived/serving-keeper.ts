import { VipnatError } from '../text/errors.ts';
import { type Clock } from '../control/clock.ts';
import { type TrackFile } from './track-file.ts';

/** Notified of changes of the track file, and of writes to it that failed. */
export interface ServingListener {
  /** keepalived was told something else than before; the first word that a node can serve is not news. */
  changed(isServing: boolean): void;
  /** It could not be told, for the first time in a row. */
  notWritten(problem: VipnatError): void;
}

/** A folder that cannot be written is not tried at every look. */
const retryMs = 60_000;

/** What keepalived reads: with weight 0, whatever is not 0 is a fault. */
const valueOf = (isServing: boolean) => (isServing ? 0 : 1);

/** Tells keepalived whether this node can serve, whenever that has changed. */
export class ServingKeeper {
  readonly #file: TrackFile;
  readonly #clock: Clock;
  readonly #report: ServingListener;
  #wanted = true;
  /** The value in the file; null until this agent wrote it. */
  #written: boolean | null = null;
  #isFailing = false;
  #nextTry = -Infinity;
  #writing: Promise<void> | null = null;

  constructor(file: TrackFile, clock: Clock, report: ServingListener) {
    this.#file = file;
    this.#clock = clock;
    this.#report = report;
  }

  /** The state wanted last, and whether the file has it. */
  get state(): { readonly isServing: boolean; readonly isTold: boolean } {
    return { isServing: this.#wanted, isTold: this.#written === this.#wanted };
  }

  /** To be told after every look. Returns at once. */
  keep(isServing: boolean): void {
    this.#wanted = isServing;
    if (this.#writing !== null || isServing === this.#written || this.#clock.now() < this.#nextTry) return;
    this.#writing = this.#write().finally(() => (this.#writing = null));
  }

  /**
   * Ends when the file says that this node can serve: nobody judges that any more. Also where nothing was written, as an
   * agent that was killed before may have left the contrary there (ADR 18).
   */
  async release(): Promise<void> {
    await this.#writing;
    if (this.#written === true) return;
    this.#nextTry = -Infinity;
    this.keep(true);
    await this.#writing;
  }

  /** Until what was wanted last is there, or it fails. */
  async #write(): Promise<void> {
    try {
      while (this.#written !== this.#wanted) {
        const isServing = this.#wanted;
        await this.#file.write(valueOf(isServing));
        if (isServing !== (this.#written ?? true)) this.#report.changed(isServing);
        this.#written = isServing;
      }
      this.#isFailing = false;
    } catch (error) {
      if (!(error instanceof VipnatError)) throw error;
      if (!this.#isFailing) this.#report.notWritten(error);
      this.#isFailing = true;
      this.#nextTry = this.#clock.now() + retryMs;
    }
  }
}
