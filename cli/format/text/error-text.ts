import { type ErrorCode, findErrorCode, VipnatError } from '../../../lib/text/errors.ts';
import { exitStatuses } from '../../../lib/text/exit-status.ts';
import { systemClock } from '../../../lib/control/clock.ts';
import { descriptorsExhausted } from '../../../lib/kernel/tools/tool-errors.ts';
import { toPrintable, toPrintableLine } from '../../../lib/text/printable.ts';
import { formatJsonLine } from '../../../lib/telemetry/logger.ts';

/** What a failed command prints to standard error, ending with a newline, and its exit status. */
export interface ErrorText {
  readonly text: string;
  readonly exitCode: number;
}

/** How an error is printed. */
export interface ErrorForm {
  /** Whether the whole story is asked for: what a tool printed, or the stack of a bug. */
  readonly isDebug: boolean;
  /** Whether standard error is a log of JSON lines. */
  readonly isJson: boolean;
}

/**
 * One line for each line of a VipnatError's message, each with the code: `vipnat: [CODE] message`, or a line of the JSON
 * log. What a tool printed follows only at debug. A host's want of descriptors has its code wherever it strikes. Anything
 * else is a bug of ours: the line says what to do about it, and its stack follows at debug.
 */
export function formatError(error: unknown, form: ErrorForm): ErrorText {
  if (isShortage(error)) return formatError(toShortage(error), form);
  const failure = error instanceof VipnatError ? readFailure(error) : readBug(error, form.isDebug);
  const { lines, details } = failure;
  const code = findErrorCode(error);
  const exitCode = error instanceof VipnatError ? error.exitCode : exitStatuses.failed;
  const shown = form.isDebug ? details : undefined;
  return { text: form.isJson ? formatJson(lines, code, shown) : formatPlain(lines, code, shown), exitCode };
}

/** The first line of an error as every command prints it, without a newline: `vipnat: [CODE] message`. */
export function formatErrorLine(code: ErrorCode, message: string): string {
  return `vipnat: [${code}] ${message}`;
}

interface Failure {
  readonly lines: readonly string[];
  readonly details: string | undefined;
}

function readFailure({ message, details }: VipnatError): Failure {
  return {
    lines: message.split('\n'),
    details: details === undefined ? undefined : toPrintable(details.trimEnd()),
  };
}

/** Node says it in words where it reads its packages, by EMFILE and ENFILE elsewhere; both hold these. */
function isShortage(error: unknown): error is Error {
  return (
    error instanceof Error && !(error instanceof VipnatError) && /too many open files/i.test(error.message)
  );
}

function toShortage({ message }: Error): VipnatError {
  return descriptorsExhausted(message.replace(/\.+$/, ''));
}

function readBug(error: unknown, isDebug: boolean): Failure {
  const { message = String(error), stack = '' } = error as Partial<Error>;
  const line = toPrintableLine(message);
  const request =
    'This is a bug. Please report it, with the output of the same command with --log-level debug';
  return { lines: [isDebug ? line : `${line}. ${request}`], details: toPrintable(stack) };
}

function formatPlain(lines: readonly string[], code: ErrorCode, details: string | undefined): string {
  const all = lines.map((line) => formatErrorLine(code, line));
  return `${[...all, ...(details === undefined ? [] : [details])].join('\n')}\n`;
}

function formatJson(lines: readonly string[], code: ErrorCode, details: string | undefined): string {
  const last = lines.length - 1;
  const timestamp = systemClock.date().toISOString();
  return lines
    .map((message, index) => {
      const fields = { code, ...(index === last && details !== undefined ? { details } : {}) };
      return `${formatJsonLine({ level: 'error', message, timestamp, fields })}\n`;
    })
    .join('');
}
