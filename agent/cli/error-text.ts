import { VipnatError } from '../../lib/errors.ts';
import { toPrintable, toPrintableLine } from '../../lib/printable.ts';

/** What a failed command prints to standard error, ending with a newline, and its exit status. */
export interface ErrorText {
  readonly text: string;
  readonly exitCode: number;
}

/**
 * One line for each line of a VipnatError's message; what a tool printed follows only when the whole story is
 * asked for. Anything else is a bug of ours, and the line says what to do about it; its stack follows then too.
 */
export function formatError(error: unknown, isDebug: boolean): ErrorText {
  if (!(error instanceof VipnatError)) return { text: formatBug(error, isDebug), exitCode: 1 };
  const lines = error.message.split('\n').map((line) => `vipnat: ${line}`);
  if (isDebug && error.details !== undefined) lines.push(toPrintable(error.details.trimEnd()));
  return { text: `${lines.join('\n')}\n`, exitCode: error.exitCode };
}

function formatBug(error: unknown, isDebug: boolean): string {
  const { message = String(error), stack = '' } = error as Partial<Error>;
  const line = `vipnat: internal error: ${toPrintableLine(message)}`;
  if (isDebug) return `${line}\n${toPrintable(stack)}\n`;
  return `${line}. This is a bug: please report it, with what the same command prints with --log-level debug\n`;
}
