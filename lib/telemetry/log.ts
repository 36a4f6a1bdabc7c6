import { type Clock, type Cancel, systemClock } from '../clock.ts';
import { VipnatError, describeCause } from '../errors.ts';
import { uptime } from 'node:os';
import { replaceFile } from '../files.ts';
import { toPrintableJson, toPrintableLine, toPrintable } from '../text.ts';

/**
 * How the kubelet learns whether the agent or the balancer of a pod hangs.
 *
 * Goal: it learns of this process, and of no other.
 * Tension: pods in the host's network share its ports, so a question by HTTP may come to another process, which may be frozen,
 * or to any other program that has the port. A program in the container can ask this process, but Node.js takes long to start.
 * Compromise: the process writes into memory of its own pod until when it counts as alive. The kubelet has the container's
 * shell compare that with the time since boot, which no change of the date moves.
 */

/** Where the heartbeat is. Every pod has a /dev/shm of its own, which can be written on a read-only root file system, too. */
export const heartbeatFile = '/dev/shm/vipnat-alive';

/** The program by which a kubelet asks: it ends with 0 while the process is alive. It starts no other program. */
export const heartbeatProbe = [
  'sh',
  '-c',
  `read -r now _ </proc/uptime && read -r until <${heartbeatFile} && [ "\${now%.*}" -lt "$until" ]`,
] as const;

const beatMs = 5000;

/**
 * A sync is a dozen tools, each with a limit of 10 s, so the longest takes less. Beyond that the loop hangs, which a
 * restart can help; that a tool or the API fails ends a sync and is no reason to be restarted.
 */
export const hangingMs = 120_000;

interface HeartbeatOptions {
  readonly clock: Clock;
  /** Milliseconds since boot, by /proc/uptime. */
  readonly uptimeMs: () => number;
  /** Milliseconds that are left until the process counts as hanging; negative since then. */
  readonly leftMs: () => number;
  readonly write: (text: string) => Promise<void>;
  /** It cannot be written, for the first time in a row: HEARTBEAT_NOT_WRITTEN. It keeps trying. */
  readonly onProblem: (error: VipnatError) => void;
}

/** Says every few seconds until when the process is alive. */
export class Heartbeat {
  readonly #options: HeartbeatOptions;
  #cancel: Cancel = () => undefined;
  #isStopped = false;
  #hasFailed = false;

  constructor(options: HeartbeatOptions) {
    this.#options = options;
  }

  /** Writes for the first time, and continues. Never rejects. */
  async start(): Promise<void> {
    const { clock, uptimeMs, leftMs, write } = this.#options;
    await write(`${Math.floor((uptimeMs() + leftMs()) / 1000)}\n`).then(
      () => (this.#hasFailed = false),
      (error: unknown) => {
        this.#fail(error);
      },
    );
    if (!this.#isStopped) this.#cancel = clock.schedule(beatMs, () => void this.start());
  }

  /** Writes no more: what was written runs out. */
  stop(): void {
    this.#isStopped = true;
    this.#cancel();
  }

  #fail(error: unknown): void {
    if (this.#hasFailed) return;
    this.#hasFailed = true;
    const next = 'Until vipnat can write it, the kubelet restarts this pod again and again';
    const message = `writing ${heartbeatFile} failed (${describeCause(error)}). ${next}`;
    this.#options.onProblem(new VipnatError('HEARTBEAT_NOT_WRITTEN', message, { cause: error }));
  }
}

/**
 * What the kubelet of this process's pod goes by, from the process's start on; null outside a pod that vipnat's manifests made.
 * `pod` is what VIPNAT_POD says, and `behindMs` for how long the loop is behind.
 */
export function createPodHeartbeat(
  pod: string | null,
  logger: Logger,
  behindMs: () => number,
): Heartbeat | null {
  if (!podKinds.some((kind) => kind === pod)) return null;
  return new Heartbeat({
    clock: systemClock,
    uptimeMs: () => uptime() * 1000,
    leftMs: () => hangingMs - behindMs(),
    write: (text) => replaceFile(heartbeatFile, text),
    onProblem: ({ message, code }) => {
      logger.warn(message, { code });
    },
  });
}

/** What a line may carry besides its sentence. Only the JSON format prints them, `code` and `details` apart. */
export interface LogFields {
  /** What a tool printed or was given, of several lines: the pretty format prints it below the sentence. */
  readonly details?: string;
  /** Which error it is: the pretty format prints it before the sentence. */
  readonly code?: string;
  readonly [name: string]: string | number | boolean | null | readonly string[] | undefined;
}

/**
 * Where the agent's lines go. One line per change, none when all is in sync above debug: a sentence that says it all, without a full stop.
 */
export type Logger = Readonly<Record<LogLevel, (message: string, fields?: LogFields) => void>>;

/**
 * A logger that writes lines of at least the configured level, in the configured format, to standard error or
 * to the stream given. Loads winston, which takes longer than most commands: only the agent itself needs it.
 */
export async function createLogger(
  { logLevel, logFormat }: { readonly logLevel: LogLevel; readonly logFormat: LogFormat },
  stream: NodeJS.WritableStream & { readonly isTTY?: boolean } = process.stderr,
): Promise<Logger> {
  const { config, createLogger: create, format, transports } = await import('winston');
  // The agent continues when nobody reads its lines any more, as when journald restarts.
  stream.on('error', () => undefined);
  const isColoured = stream.isTTY === true && (process.env['NO_COLOR'] ?? '') === '';
  const formatLine =
    logFormat === 'json' ? formatJsonLine : (entry: Entry) => formatPretty(entry, isColoured);
  const winston = create({
    level: logLevel,
    levels: config.npm.levels,
    format: format.combine(
      format.timestamp(),
      // winston's own type leaves open what logAt below always passes.
      format.printf((entry) => formatLine(entry as unknown as Entry)),
    ),
    // eslint-disable-next-line @typescript-eslint/no-unsafe-class-instance-assignment -- winston 3.19 declares its transports as interfaces.
    transports: [new transports.Stream({ stream })],
  });
  const logAt =
    (level: LogLevel): Logger['info'] =>
    (message, fields = {}) => {
      winston.log({ level, message, fields });
    };
  return { error: logAt('error'), warn: logAt('warn'), info: logAt('info'), debug: logAt('debug') };
}

/** A line of the log as a person reads it later. */
export interface RecentLine {
  readonly at: Date;
  readonly level: LogLevel;
  readonly message: string;
}

const maxRecent = 20;
const maxRecentLength = 1000;

/** The same logger, and what its last lines were, the oldest first: 20 at most, none of level debug. A very long one is cut. */
export function keepRecent(
  logger: Logger,
  clock: Clock,
): { readonly logger: Logger; readonly lines: readonly RecentLine[] } {
  const lines: RecentLine[] = [];
  const keepAt =
    (level: LogLevel): Logger['info'] =>
    (message, fields) => {
      lines.push({ at: clock.date(), level, message: toPrintableLine(message).slice(0, maxRecentLength) });
      if (lines.length > maxRecent) lines.shift();
      logger[level](message, fields);
    };
  const [error, warn, info] = [keepAt('error'), keepAt('warn'), keepAt('info')];
  return { logger: { ...logger, error, warn, info }, lines };
}

/** A line of the log: its time is in ISO form, as format.timestamp has it. */
interface Entry {
  readonly level: LogLevel;
  readonly message: string;
  readonly timestamp: string;
  readonly fields: Readonly<Record<string, unknown>> & { readonly details?: string };
}

/** A line of the JSON log, without its newline. */
export function formatJsonLine({ level, message, timestamp, fields }: Entry): string {
  // Twice, so that these three come first and yet no field can take their place.
  const own = { time: timestamp, level, msg: message };
  return toPrintableJson({ ...own, ...fields, ...own });
}

function formatPretty({ level, message, timestamp, fields }: Entry, isColoured: boolean): string {
  const time = new Date(timestamp);
  const padded = level.padEnd(5);
  const label = isColoured ? `${colours[level]}${padded}\u001b[0m` : padded;
  const code = typeof fields['code'] === 'string' ? `[${fields['code']}] ` : '';
  // The host's local time, as journalctl and a person's watch have it: hh:mm:ss.mmm.
  const clockTime = `${time.toTimeString().slice(0, 8)}.${String(time.getMilliseconds()).padStart(3, '0')}`;
  const line = `${clockTime} ${label} ${toPrintableLine(`${code}${message}`)}`;
  if (fields.details === undefined) return line;
  return `${line}\n${toPrintable(fields.details.trimEnd()).replaceAll(/^/gm, '    ')}`;
}

/** Red, yellow, none, grey: the word says the same. */
const colours: Readonly<Record<LogLevel, string>> = {
  error: '\u001b[31m',
  warn: '\u001b[33m',
  info: '\u001b[0m',
  debug: '\u001b[90m',
};

/**
 * `--log-level` and its choices, the fewest lines first; `info` is the default. `error`: something failed, and is not tried again by itself; `warn`:
 * something failed or is not as expected, and vipnat continues; `info`: something changed; `debug`: what was seen and why nothing was done.
 */
export const logLevels = ['error', 'warn', 'info', 'debug'] as const;

/** One of logLevels. */
export type LogLevel = (typeof logLevels)[number];

/** `--log-format` and its choices, the default first. */
export const logFormats = ['pretty', 'json'] as const;

/** One of logFormats. */
export type LogFormat = (typeof logFormats)[number];

/** What may run vipnat in a pod. A controller is of a Deployment. */
const podKinds = ['daemonset', 'static-pod', 'deployment'] as const;

/** What runs vipnat in a pod; VIPNAT_POD names it. */
export type PodKind = (typeof podKinds)[number];

/** In a probe's path: which pod it is about. Pods of a host share its network, so the probes of one that waits come to the agent that runs. */
export const podParameter = 'pod';
