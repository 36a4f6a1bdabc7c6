import type { EventRecorder, EventReason } from '../../../lib/telemetry/events.ts';

/** Keeps what is recorded, as `REASON note`. */
export class RecordingEvents implements EventRecorder {
  readonly recorded: string[] = [];

  record(reason: EventReason, note: string): void {
    if (note === '' || note.includes('\n')) throw new Error(`not one line: ${JSON.stringify(note)}`);
    this.recorded.push(`${reason} ${note}`);
  }
}
