/**
 * Of a test that waits for something of a lab. The lab's own waits end before it, after 300 s, and say then what was awaited, with the
 * end of a log.
 */
export const labLimitMs = 600_000;
