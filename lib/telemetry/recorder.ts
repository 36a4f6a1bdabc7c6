import { type EventReason } from './reasons.ts';
import { type Regarding } from './regarding.ts';

/** Who makes Kubernetes events of what happens. The real one is `EventWriter`. */
export interface EventRecorder {
  /**
   * Something happened. Returns at once and never throws, whatever becomes of the event. The note is a sentence as in
   * the log; the same again, whatever durations are in it, is a repeat. It is
   * about this host's node unless it is about another object.
   */
  record(reason: EventReason, note: string, regarding?: Regarding): void;
}

/** No credentials are configured: nobody is told. */
export const noEvents: EventRecorder = { record: () => undefined };
