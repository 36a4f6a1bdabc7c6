/** `--log-level` and its choices, the fewest lines first; `info` is the default. */
export const logLevels = ['error', 'warn', 'info', 'debug'] as const;

/** One of logLevels. */
export type LogLevel = (typeof logLevels)[number];

/** `--log-format` and its choices, the default first. */
export const logFormats = ['pretty', 'json'] as const;

/** One of logFormats. */
export type LogFormat = (typeof logFormats)[number];
