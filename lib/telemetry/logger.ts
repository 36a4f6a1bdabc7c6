import { type LogFormat, type LogLevel } from './log-level.ts';
import { toPrintable, toPrintableJson, toPrintableLine } from '../text/printable.ts';

/** What a line may carry beside its sentence. Only the JSON format prints them, `code` and `details` apart. */
export interface LogFields {
  /** What a tool printed or was given, of several lines: the pretty format prints it below the sentence. */
  readonly details?: string;
  /** Which error of docs/errors.md it is: the pretty format prints it before the sentence. */
  readonly code?: string;
  readonly [name: string]: string | number | boolean | null | readonly string[] | undefined;
}

/** Writes one line at a level: a sentence that says it all, without a full stop. */
export type Log = (message: string, fields?: LogFields) => void;

/** Where the agent's lines go. One line per change, none when all is in sync above debug. */
export interface Logger {
  /** Something failed, and is not tried again by itself. */
  readonly error: Log;
  /** Something failed or is not as it should be, and vipnat goes on. */
  readonly warn: Log;
  /** Something changed. */
  readonly info: Log;
  /** What was seen and why nothing was done. */
  readonly debug: Log;
}

/**
 * A logger that writes lines of at least the configured level, in the configured format, to standard error or
 * to the stream given. Loads winston, which takes longer than most commands: only the agent itself needs it.
 */
export async function createLogger(
  { logLevel, logFormat }: { readonly logLevel: LogLevel; readonly logFormat: LogFormat },
  stream: NodeJS.WritableStream & { readonly isTTY?: boolean } = process.stderr,
): Promise<Logger> {
  const { config, createLogger: create, format, transports } = await import('winston');
  // The agent goes on when nobody reads its lines any more, as when journald restarts.
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

/** A line of the log: its time is in ISO form, as format.timestamp has it. */
export interface Entry {
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
  const word = isColoured ? `${colours[level]}${padded}\u001b[0m` : padded;
  const code = typeof fields['code'] === 'string' ? `[${fields['code']}] ` : '';
  const line = `${formatClockTime(time)} ${word} ${toPrintableLine(`${code}${message}`)}`;
  if (fields.details === undefined) return line;
  return `${line}\n${toPrintable(fields.details.trimEnd()).replaceAll(/^/gm, '    ')}`;
}

/** The host's local time, as journalctl and a person's watch have it: hh:mm:ss.mmm. */
function formatClockTime(time: Date): string {
  const parts = [time.getHours(), time.getMinutes(), time.getSeconds()].map((part) =>
    String(part).padStart(2, '0'),
  );
  return `${parts.join(':')}.${String(time.getMilliseconds()).padStart(3, '0')}`;
}

/** Red, yellow, none, grey: the word says the same. */
const colours: Readonly<Record<LogLevel, string>> = {
  error: '\u001b[31m',
  warn: '\u001b[33m',
  info: '\u001b[0m',
  debug: '\u001b[90m',
};
