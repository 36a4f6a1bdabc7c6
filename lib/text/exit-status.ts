/**
 * The exit statuses of all commands, in one table: docs/errors.md has a row for each, and a test compares the two.
 * What a diagnostic found never looks like a diagnostic that could not look. A signal ends a command with 128 and its number.
 */
export const exitStatuses = {
  /** It is done, or all is well. */
  done: 0,
  /** It could not be done, or could not be looked at: standard error says why, with a code. */
  failed: 1,
  /** A diagnostic looked and found something: drift, trouble, warnings. */
  found: 2,
  /** Doctor found failures. */
  foundFailures: 3,
  /** The command line or the configuration is wrong: nothing was done. EX_CONFIG of sysexits.h. */
  misused: 78,
  /** Nobody reads standard output any more: what a shell shows of SIGPIPE, which Node ignores. */
  readerGone: 141,
} as const;
