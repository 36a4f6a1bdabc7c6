import type { LogLevel, LogFields, Logger } from '../../../lib/telemetry/log.ts';

interface LoggedLine {
  readonly level: LogLevel;
  readonly message: string;
  readonly fields: LogFields;
}

/** A logger that keeps its lines, of every level, in the order in which they came. */
export interface RecordingLogger extends Logger {
  readonly lines: readonly LoggedLine[];
}

/** Makes an empty recording logger. It fails on a message of several lines: a log line is one line. */
export function createRecordingLogger(): RecordingLogger {
  const lines: LoggedLine[] = [];
  const recordAt =
    (level: LogLevel) =>
    (message: string, fields: LogFields = {}) => {
      if (message === '' || message.includes('\n'))
        throw new Error(`not one line: ${JSON.stringify(message)}`);
      lines.push({ level, message, fields });
    };
  return {
    ...{ lines, error: recordAt('error'), warn: recordAt('warn'), info: recordAt('info') },
    debug: recordAt('debug'),
  };
}
