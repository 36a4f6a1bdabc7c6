import { errorCatalogue as catalogue, type ErrorDescription } from './error-catalogue.ts';
import { toPrintable } from './printable.ts';

/** A stable name for one kind of failure; each has a row in docs/errors.md. */
export type ErrorCode = keyof typeof catalogue;

/** All codes, in the order of the catalogue. */
export const errorCodes = Object.keys(catalogue) as readonly ErrorCode[];

/** What is said of a code. */
export function describeError(code: ErrorCode): ErrorDescription {
  return catalogue[code];
}

/** The code of whatever was thrown: what is no VipnatError is a bug, INTERNAL_ERROR. */
export function findErrorCode(error: unknown): ErrorCode {
  return error instanceof VipnatError ? error.code : 'INTERNAL_ERROR';
}

/**
 * The one error class of vipnat. The message is one line: what was attempted, what happened, what comes next; only
 * that of CONFIG_INVALID can have several, one for each problem.
 * `details` is for a tool's own words or a failing script: shown only where the whole story is asked for.
 */
export class VipnatError extends Error {
  /** Which failure this is. */
  readonly code: ErrorCode;
  /** What a failing tool printed or was given; absent when the message says it all. */
  readonly details: string | undefined;

  constructor(code: ErrorCode, message: string, options: { cause?: unknown; details?: string } = {}) {
    // Much of it quotes what tools, files and other hosts say, and all of it is for a terminal or a log.
    super(toPrintable(message), 'cause' in options ? { cause: options.cause } : {});
    this.name = 'VipnatError';
    this.code = code;
    this.details = options.details;
  }

  /** The exit status of a command that ends with this error. */
  get exitCode(): number {
    return catalogue[this.code].exit;
  }

  /** Whether the same attempt can succeed later without anybody changing the configuration. */
  get retry(): boolean {
    return catalogue[this.code].retry;
  }
}

/** Whatever was thrown, as a VipnatError: what is none gets `code`, and the message that `attempt` failed. */
export function toVipnatError(error: unknown, code: ErrorCode, attempt: string): VipnatError {
  if (error instanceof VipnatError) return error;
  const reason = error instanceof Error ? error.message : String(error);
  return new VipnatError(code, `${attempt} failed: ${reason}`, { cause: error });
}
