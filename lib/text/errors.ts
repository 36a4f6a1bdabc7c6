import { exitStatuses } from './exit-status.ts';
import { toPrintable } from './printable.ts';

const { failed, misused } = exitStatuses;

/**
 * Everything that can go wrong, in one catalogue. The code is the contract: scripts, tests and logs branch
 * on it, never on the text. docs/errors.md has a row for each, and a test compares the two.
 */
const catalogue = {
  CONFIG_INVALID: { exit: misused, retry: false },
  NODE_TOO_OLD: { exit: failed, retry: false },
  TOOL_MISSING: { exit: failed, retry: true },
  TOOL_NOT_PERMITTED: { exit: failed, retry: true },
  TOOL_FAILED: { exit: failed, retry: true },
  NF_TABLES_MISSING: { exit: failed, retry: true },
  TOOL_TIMED_OUT: { exit: failed, retry: true },
  DESCRIPTORS_EXHAUSTED: { exit: failed, retry: true },
  TOOL_OUTPUT_UNEXPECTED: { exit: failed, retry: true },
  TABLE_INCOMPATIBLE: { exit: failed, retry: true },
  NETLINK_FAILED: { exit: failed, retry: true },
  SYSCTL_NOT_WRITTEN: { exit: failed, retry: true },
  RULES_NOT_CONVERGING: { exit: failed, retry: true },
  STATE_UNREADABLE: { exit: failed, retry: true },
  STATE_NOT_WRITTEN: { exit: failed, retry: true },
  TRACK_FILE_NOT_WRITTEN: { exit: failed, retry: true },
  OUTPUT_NOT_WRITTEN: { exit: failed, retry: true },
  API_CREDENTIALS_INVALID: { exit: failed, retry: true },
  API_UNREACHABLE: { exit: failed, retry: true },
  API_UNTRUSTED: { exit: failed, retry: true },
  API_FORBIDDEN: { exit: failed, retry: true },
  API_ANSWER_UNEXPECTED: { exit: failed, retry: true },
  LISTEN_FAILED: { exit: failed, retry: true },
  AGENT_ALREADY_RUNNING: { exit: failed, retry: false },
  INTERNAL_ERROR: { exit: failed, retry: false },
} as const satisfies Record<string, { exit: number; retry: boolean }>;

/** A stable name for one kind of failure; each has a row in docs/errors.md. */
export type ErrorCode = keyof typeof catalogue;

/** All codes, in the order of the catalogue. */
export const errorCodes = Object.keys(catalogue) as readonly ErrorCode[];

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
