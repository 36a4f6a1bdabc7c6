import * as z from 'zod/mini';
import { name, version } from '../../lib/kubernetes/api-object.ts';
import { type Resource } from '../../lib/kubernetes/resources.ts';

const time = z.nullish(z.string());

const event = z.object({
  metadata: z.object({ name, namespace: name, resourceVersion: version, creationTimestamp: time }),
  type: z._default(z.string(), 'Normal'),
  reason: z._default(z.string(), ''),
  message: z._default(z.string(), ''),
  eventTime: time,
  lastTimestamp: time,
  count: z.nullish(z.number()),
  series: z.nullish(z.object({ count: z.nullish(z.number()), lastObservedTime: time })),
});

/** An Event of v1: those that were written by events.k8s.io are there, too. */
type Event = z.output<typeof event>;

/** Something that was said of a Service or of its address. */
export interface ServiceEvent {
  /** When it was so last, as the API writes dates. */
  readonly at: string;
  /** `Normal` or `Warning`. */
  readonly type: string;
  readonly reason: string;
  readonly message: string;
  /** How often. */
  readonly count: number;
}

/** The events about the object of a uid. An apiserver forgets events after an hour. */
export function toEventResource(namespace: string, uid: string): Resource<Event> {
  return {
    kind: 'Event',
    path: `/api/v1/namespaces/${namespace}/events`,
    selector: `fieldSelector=${encodeURIComponent(`involvedObject.uid=${uid}`)}`,
    schema: event,
    limits: { objects: 10_000, characters: 8_000_000, page: 500 },
  };
}

/** Events as people read them, the youngest last. Pure. */
export function readEvents(events: readonly Event[]): ServiceEvent[] {
  return events
    .map(({ metadata, type, reason, message, eventTime, lastTimestamp, count, series }) => ({
      at: series?.lastObservedTime ?? lastTimestamp ?? eventTime ?? metadata.creationTimestamp ?? '',
      count: series?.count ?? count ?? 1,
      ...{ type, reason, message },
    }))
    .sort((one, other) => Date.parse(one.at) - Date.parse(other.at));
}
