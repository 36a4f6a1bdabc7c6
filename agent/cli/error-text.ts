import { VipnatError } from '../../lib/errors.ts';
import { descriptorsExhausted } from '../../lib/kernel/tool-errors.ts';
import { toPrintable, toPrintableLine } from '../../lib/printable.ts';

/** What a failed command prints to standard error, ending with a newline, and its exit status. */
export interface ErrorText {
  readonly text: string;
  readonly exitCode: number;
}

/**
 * One line for each line of a VipnatError's message; what a tool printed follows only when the whole story is
 * asked for. So is a host's want of descriptors, wherever it strikes. Anything else is a bug of ours, and the line says what to do about it; its stack follows then too.
 */
export function formatError(error: unknown, isDebug: boolean): ErrorText {
  if (!(error instanceof VipnatError)) {
    return isShortage(error) ? formatError(toShortage(error), isDebug) : formatBug(error, isDebug);
  }
  const lines = error.message.split('\n').map((line) => `vipnat: ${line}`);
  if (isDebug && error.details !== undefined) lines.push(toPrintable(error.details.trimEnd()));
  return { text: `${lines.join('\n')}\n`, exitCode: error.exitCode };
}

/** Node says it in words where it reads its packages, by EMFILE and ENFILE elsewhere; both hold these. */
function isShortage(error: unknown): error is Error {
  return error instanceof Error && /too many open files/i.test(error.message);
}

function toShortage({ message }: Error): VipnatError {
  return descriptorsExhausted(message.replace(/\.+$/, ''));
}

function formatBug(error: unknown, isDebug: boolean): ErrorText {
  const { message = String(error), stack = '' } = error as Partial<Error>;
  const line = `vipnat: internal error: ${toPrintableLine(message)}`;
  const text = isDebug
    ? `${line}\n${toPrintable(stack)}\n`
    : `${line}. This is a bug: please report it, with what the same command prints with --log-level debug\n`;
  return { text, exitCode: 1 };
}
