/** A watch that goes on for ever would know of no new server; a new one costs a request. */
export const watchSeconds = 120;

/** A watch that lasts for so long works: whoever sends nonsense does it at once. */
export const provenMs = 1000;

/** An API that does not have a kind gets it with its next version. */
export const missingMs = 10 * 60_000;

/** Not more than one list or watch a second, however quickly they end. */
export const paceMs = 1000;

/** Between rounds in which every server failed: two requests of every master in this time burden nobody, and its word counts soon. */
export const firstRetryMs = 500;
/** The longest pause between such rounds. */
export const maxRetryMs = 8000;
