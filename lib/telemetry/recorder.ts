import { type EventReason } from './reasons.ts';

/** Who makes Kubernetes events of what happens to this node's balancing. The agent's is `EventWriter`. */
export interface EventRecorder {
  /**
   * Something happened. Returns at once and never throws, whatever becomes of the event. The note is a sentence as in
   * the log; the same again, whatever durations are in it, is a repeat.
   */
  record(reason: EventReason, note: string): void;
}

/** No credentials are configured: nobody is told. */
export const noEvents: EventRecorder = { record: () => undefined };
