/**
 * Keeps keepalived.conf as it is wanted, and has keepalived read it.
 *
 * Goal: whatever is killed at whatever moment, keepalived soon goes by the file, and the file is the one that is wanted.
 * Tension: keepalived reads its file when it starts or is told to, and tells nobody whether it did. It may be in a container that
 * starts at any moment, and says its pid after it has read the file.
 * Compromise: each process gets one SIGHUP for each text, and one for the text that was there when it was first seen. A reload of an
 * equal file moves nothing. A process that has just started is left alone for a second: it could not take a signal yet.
 */
import { type Bucket, type Budget, fillBucket, takeToken } from '../../lib/control/backoff.ts';
import { type Clock } from '../../lib/control/clock.ts';
import { readIfThere } from '../../lib/files/optional-file.ts';
import { type RunningKeepalived } from '../../lib/keepalived/running.ts';
import {
  readConfigurationFile,
  replaceConfigurationFile,
  type Replacement,
  type TestConfiguration,
} from './configuration-file.ts';
import { type SeatFiles } from '../../lib/keepalived/seat-files.ts';
import { type SeatsListener } from './seats-listener.ts';

/** What keeping a configuration needs of the world. */
export interface ConfigurationPorts {
  readonly files: SeatFiles;
  readonly clock: Clock;
  readonly testConfiguration: TestConfiguration;
  /** The balancer's own keepalived; null where none runs. Never rejects. */
  readonly findRunning: () => Promise<RunningKeepalived | null>;
  /** Has it read its file again; false where it has ended. */
  readonly reload: (running: RunningKeepalived) => boolean;
  readonly report: SeatsListener;
}

/** keepalived takes 0.3 s to read 1,000 addresses. What changes meanwhile comes with the next file. */
const writeBudget: Budget = { capacity: 3, refillMs: 1000 };

/** A text that was refused is tried again after this: an interface that it lacked may be there. */
const refusedMs = 30_000;

/** A process has its signal handlers after some milliseconds, and after more on a busy host. */
const youngMs = 1000;

/** What is there. */
export interface ConfigurationView {
  /** The text of keepalived.conf; null for no file. */
  readonly text: string | null;
  readonly isRunning: boolean;
}

/** One call at a time. */
export class ConfigurationKeeper {
  readonly #ports: ConfigurationPorts;
  #bucket: Bucket;
  #text: string | null = null;
  #running: RunningKeepalived | null = null;
  /** What was told last, to which process. */
  #told = '';
  #refused: { readonly text: string; readonly at: number } | null = null;
  /** Whether keepalived was the first to read the file that is there. */
  #isUnchecked = false;
  /** What keepalived itself has found wrong with it. */
  #complaint = '';
  #isRunning: boolean | null = null;

  constructor(ports: ConfigurationPorts) {
    this.#ports = ports;
    this.#bucket = fillBucket(writeBudget, ports.clock.now());
  }

  /** Looks at the file and the process. Rejects as readIfThere does. */
  async look(): Promise<ConfigurationView> {
    this.#running = await this.#ports.findRunning();
    this.#text = await readConfigurationFile(this.#ports.files);
    const isRunning = this.#running !== null;
    if (isRunning !== this.#isRunning) this.#ports.report.running(isRunning);
    this.#isRunning = isRunning;
    // What was said before is about a text of a former life.
    if (this.#told !== '') await this.#readComplaint();
    return { text: this.#text, isRunning };
  }

  /**
   * Replaces the file if it is another one than at the last look, not too often, and has the process of that look read it. Answers
   * after how many milliseconds to try again: null where nothing is left to do. Rejects as replaceConfigurationFile does.
   */
  async keep(text: string): Promise<number | null> {
    const waitMs = text === this.#text ? null : await this.#replace(text);
    return waitMs ?? this.#tell();
  }

  /** keepalived empties it before each check, and then goes on with the configuration that it has. */
  async #readComplaint(): Promise<void> {
    const { files, report } = this.#ports;
    const text = await readIfThere(files.checkLog, { refusesLink: true }).catch(() => null);
    const complaint = text?.trim() ?? '';
    if (complaint === this.#complaint) return;
    this.#complaint = complaint;
    report.refused(complaint === '' ? null : complaint);
  }

  async #replace(text: string): Promise<number | null> {
    const { clock, files, testConfiguration } = this.#ports;
    const now = clock.now();
    if (this.#refused?.text === text && now - this.#refused.at < refusedMs) return null;
    const { bucket, waitMs } = takeToken(writeBudget, this.#bucket, now);
    this.#bucket = bucket;
    if (waitMs > 0) return waitMs;
    this.#note(text, await replaceConfigurationFile(files, text, testConfiguration));
    return null;
  }

  #note(text: string, replacement: Replacement): void {
    const { clock, report } = this.#ports;
    if (replacement.outcome === 'refused') {
      if (this.#refused?.text !== text) report.refused(replacement.words);
      this.#refused = { text, at: clock.now() };
      return;
    }
    if (replacement.outcome === 'unchecked' && !this.#isUnchecked) report.notChecked(replacement.reason);
    this.#isUnchecked = replacement.outcome === 'unchecked';
    if (this.#refused !== null) report.refused(null);
    this.#refused = null;
    this.#text = text;
    report.written();
  }

  #tell(): number | null {
    const running = this.#running;
    if (running === null || this.#text === null) return null;
    const key = `${running.pid} ${running.startedMs} ${this.#text}`;
    if (key === this.#told) return null;
    if (running.ageMs < youngMs) return youngMs - running.ageMs;
    if (this.#ports.reload(running)) this.#told = key;
    return null;
  }
}
