import { type Clock, type Cancel, type Budget, type Bucket, fillBucket, takeToken } from '../../lib/clock.ts';
import { VipnatError, describeCause } from '../../lib/errors.ts';
import type { Logger } from '../../lib/telemetry/log.ts';
import { GuardWatch, type SeatFiles } from '../../lib/keepalived/write.ts';
import { readIfThere, refuseForeignFile, replaceFile, notWritten, type GuardView } from '../../lib/files.ts';
import { findObstacle, seatsMark, type RunningKeepalived } from '../../lib/keepalived/read.ts';
import { join, dirname, basename } from 'node:path';
import { constants, rename, writeFile } from 'node:fs/promises';

/** What keepalived finds wrong with a file; null when it takes it. Rejects where no keepalived can be asked. */
type TestConfiguration = (path: string) => Promise<string | null>;

/** Why keepalived takes no such file: the one before stays. Or why none could check it here; null for neither. */
type Refusal = string | VipnatError | null;

/** The text of keepalived.conf; null where there is none. Rejects as readIfThere does. */
export async function readConfigurationFile({ file }: SeatFiles): Promise<string | null> {
  return await readIfThere(file, { maxBytes: maxFileBytes, refusesLink: true });
}

/** 65,536 IPv6 addresses have 3 MB. */
const maxFileBytes = 16_777_216;

/**
 * Replaces keepalived.conf, after keepalived itself has read the new one: whole or not at all. One that it refuses is kept aside.
 * Whatever is killed meanwhile, the file that keepalived reads has passed the check, or is the one before.
 * @throws VipnatError OUTPUT_NOT_WRITTEN, TOOL_TIMED_OUT and other errors of starting keepalived
 */
async function replaceConfigurationFile(
  { file, refusedFile }: SeatFiles,
  text: string,
  test: TestConfiguration,
): Promise<Refusal> {
  await refuseForeignFile(file, seatsMark, 'vipnat balancer');
  const draft = join(dirname(file), `.${basename(file)}.new`);
  try {
    await replaceFile(draft, text, { isOwnFolder: true });
    const refusal = await check(draft, test);
    await rename(draft, typeof refusal === 'string' ? refusedFile : file);
    return refusal;
  } catch (error) {
    throw error instanceof VipnatError ? error : notWritten(file, error);
  }
}

async function check(draft: string, test: TestConfiguration): Promise<Refusal> {
  try {
    return await test(draft);
  } catch (error) {
    if (error instanceof VipnatError && error.code === 'TOOL_MISSING') return error;
    throw error;
  }
}

/** What the caller supplies. */
export interface ConfigurationPorts {
  readonly files: SeatFiles;
  readonly clock: Clock;
  readonly testConfiguration: TestConfiguration;
  /** The balancer's own keepalived; null where none runs. Never rejects. */
  readonly findRunning: () => Promise<RunningKeepalived | null>;
  /** Has it read its file again; false where it has ended. */
  readonly reload: (running: RunningKeepalived) => boolean;
  readonly logger: Logger;
}

/** keepalived takes 0.3 s to read 1,000 addresses. What changes meanwhile comes with the next file. */
const writeBudget: Budget = { capacity: 3, refillMs: 1000 };

/** A text that was refused is tried again after this: an interface that it lacked may be there. */
const refusedMs = 30_000;

/** A process has its signal handlers after some milliseconds, and after more on a busy host. */
const youngMs = 1000;

/**
 * Keeps keepalived.conf as it is wanted, and has keepalived read it. One call at a time.
 *
 * Goal: whatever is killed at whatever moment, keepalived soon goes by the file, and the file is the one that is wanted.
 * Tension: keepalived reads its file when it starts or gets a signal, and reports to no other process whether it did. It may be in a container
 * that starts at any moment, and writes its pid after it has read the file.
 * Compromise: each process gets one SIGHUP for each text, and one for the text that was there when it was first seen. A reload of an
 * equal file moves nothing. A process that has just started is left alone for a second: it could not take a signal yet.
 */
export class ConfigurationKeeper {
  readonly #ports: ConfigurationPorts;
  #bucket: Bucket;
  #text: string | null = null;
  #running: RunningKeepalived | null = null;
  /** What was reported last, to which process. */
  #reported = '';
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

  /** Looks at the file, whose text is null where it is missing, and the process. Rejects as readIfThere does. */
  async read(): Promise<{ readonly text: string | null; readonly isRunning: boolean }> {
    const { files, findRunning, logger } = this.#ports;
    this.#running = await findRunning();
    this.#text = await readConfigurationFile(files);
    const isRunning = this.#running !== null;
    if (isRunning && this.#isRunning !== true) logger.info("the balancer's keepalived runs");
    if (!isRunning && this.#isRunning !== false)
      logger.warn("the balancer's keepalived does not run: this node holds no address");
    this.#isRunning = isRunning;
    // What was said before is about a text of a former life.
    if (this.#reported !== '') await this.#readComplaint();
    return { text: this.#text, isRunning };
  }

  /**
   * Replaces the file if it differs from the file at the last sync, not too often, and has the process of that sync read it. Answers
   * after how many milliseconds to try again: null where nothing more is to be done. Rejects as replaceConfigurationFile does.
   */
  async keep(text: string): Promise<number | null> {
    const waitMs = text === this.#text ? null : await this.#replace(text);
    return waitMs ?? this.#notify();
  }

  /** keepalived empties it before each check, and then keeps the configuration that it has. */
  async #readComplaint(): Promise<void> {
    const { files } = this.#ports;
    const text = await readIfThere(files.checkLog, { refusesLink: true }).catch(() => null);
    const complaint = text?.trim() ?? '';
    if (complaint === this.#complaint) return;
    this.#complaint = complaint;
    this.#logRefusal(complaint === '' ? null : complaint);
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

  #note(text: string, refusal: Refusal): void {
    const { clock, logger } = this.#ports;
    if (typeof refusal === 'string') {
      if (this.#refused?.text !== text) this.#logRefusal(refusal);
      this.#refused = { text, at: clock.now() };
      return;
    }
    const what = 'keepalived.conf is not checked before it is used, only by keepalived itself';
    if (refusal !== null && !this.#isUnchecked) logger.info(`${what}: ${refusal.message}`);
    this.#isUnchecked = refusal !== null;
    if (this.#refused !== null) this.#logRefusal(null);
    this.#refused = null;
    this.#text = text;
    logger.info('keepalived.conf is replaced');
  }

  /** In keepalived's words; null where it takes the file. */
  #logRefusal(details: string | null): void {
    const { logger } = this.#ports;
    const what = 'keepalived refuses the new keepalived.conf, and continues with the former configuration';
    if (details === null) logger.info('keepalived takes the new keepalived.conf');
    else logger.error(what, { details });
  }

  #notify(): number | null {
    const running = this.#running;
    if (running === null || this.#text === null) return null;
    const key = `${running.pid} ${running.startedMs} ${this.#text}`;
    if (key === this.#reported) return null;
    if (running.ageMs < youngMs) return youngMs - running.ageMs;
    if (this.#ports.reload(running)) this.#reported = key;
    return null;
  }
}

/**
 * What keepalived runs every 5 s, and while it fails gives the seats up. It counts its runs since the balancer last wrote another beat: no
 * clock can step, and a balancer that is stopped or hangs is as good as none. After half a minute it fails for four runs and no longer: by
 * then another node has the seat, or there is none, and the last one holds on. A run that cannot read the beat succeeds. What it has seen
 * shows the balancer that keepalived runs it.
 */
const balancerCheck = `# vipnat balancer writes this file.
cd "\${0%/*}" || exit 0
last= missed=0
read -r beat needed <beat || exit 0
# As the last run has left it.
[ ! -e seen ] || read -r last missed <seen
[ "$beat" = "$last" ] && missed=$((missed + 1)) || missed=0
# Half a minute without another beat.
echo "$beat $missed" >seen || exit 0
[ "$needed" = 0 ] || [ "$missed" -lt 6 ] || [ "$missed" -gt 9 ]
`;

/** One that has just started has not looked yet. */
const youngGuardMs = 15_000;

/** As often as keepalived runs its script. */
const beatMs = 5000;

type BeatPorts = Pick<ConfigurationPorts, 'files' | 'clock' | 'logger' | 'findRunning'>;

/** Has keepalived's script know that this process still runs. A script that was removed is written again. Without a new beat it succeeds for half a minute. */
export class BalancerBeat {
  readonly #ports: BeatPorts;
  /** Whether an address of a seat is dead here without this process: until that is known, it is as a former life has said. */
  isNeeded: boolean | null = null;
  #cancel: Cancel = () => undefined;
  #written: Promise<void> = Promise.resolve();
  #isFailing = false;
  readonly guard: GuardWatch;
  /** What keepalived had seen when it was last read; undefined before: a former life may have left some. */
  #seen: string | null | undefined = undefined;

  constructor(ports: BeatPorts) {
    this.#ports = ports;
    this.guard = new GuardWatch(
      ports.clock,
      () => this.#readGuard(),
      (cause) => {
        const what = 'keepalived gives up no seat if this balancer ends';
        if (cause === null) ports.logger.info('keepalived looks again whether this balancer runs');
        else ports.logger.warn(`${what}: ${cause}`);
      },
    );
  }

  /** Ends once the script and another beat are there, or could not be written. For each reload: keepalived runs the script then, too. */
  write(): Promise<void> {
    return (this.#written = this.#write());
  }

  start(): void {
    void this.write();
    this.guard.keep();
    this.#cancel = this.#ports.clock.schedule(beatMs, this.start.bind(this));
  }

  async stop(): Promise<void> {
    this.#cancel();
    this.guard.stop();
    await this.#written;
  }

  /** keepalived has seen another beat since the last call. */
  async #readGuard(): Promise<GuardView> {
    const { files, findRunning } = this.#ports;
    const [running, before] = [await findRunning(), this.#seen];
    this.#seen = await readIfThere(files.seen).catch(() => null);
    const text = await readConfigurationFile(files).catch(() => null);
    const isAsked = text?.includes(files.checkBalancer) === true;
    if (before === undefined || running === null || running.ageMs < youngGuardMs || !isAsked)
      return { isWatched: null };
    if (this.#seen !== before) return { isWatched: true };
    const cause = await findObstacle(running.pid, files.checkBalancer).catch(() => null);
    return { isWatched: false, cause: cause ?? 'it has not run check-balancer for a while' };
  }

  async #write(): Promise<void> {
    const { files, clock, logger } = this.#ports;
    try {
      if ((await readIfThere(files.checkBalancer)) !== balancerCheck)
        await replaceFile(files.checkBalancer, balancerCheck, { isOwnFolder: true });
      this.isNeeded ??= (await readIfThere(files.beat))?.endsWith(' 1\n') ?? false;
      const text = `${clock.date().getTime()} ${Number(this.isNeeded)}\n`;
      // No former life has written the same. No disk is waited for. All are as long, and none is empty: who hangs here is missed, too.
      await writeFile(files.beat, text, { flag: constants.O_WRONLY | constants.O_CREAT });
      this.#isFailing = false;
    } catch (error) {
      if (!this.#isFailing)
        logger.warn(`keepalived cannot find out whether the balancer runs: ${describeCause(error)}`);
      this.#isFailing = true;
    }
  }
}
