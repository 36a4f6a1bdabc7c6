import { toPrintableLine } from '../text/printable.ts';
import { type ApiEvent } from '../kubernetes/event-request.ts';
import { toMicroTime } from '../kubernetes/micro-time.ts';
import { type RecordedEvent } from './queue.ts';
import { describeReason } from './reasons.ts';

/** Source: the validation of events.k8s.io/v1 in kube-apiserver 1.36; lengths are in bytes. */
const maxNoteBytes = 1024;
const maxInstanceLength = 128;

/** An object's name has at most 253 characters; a stamp in hexadecimal digits has 14 of them until the year 4253. */
const maxNamePrefixLength = 235;

/** An event as the API takes it: in the namespace of its object, or in the one that it has for what has none. Pure. */
export function toApiEvent(event: RecordedEvent, reporter: string): ApiEvent {
  const { reason, note, regarding, stamp, firstSeen, lastSeen, count } = event;
  const prefix = regarding.name.slice(0, maxNamePrefixLength).replace(/[.-]+$/, '');
  return {
    apiVersion: 'events.k8s.io/v1',
    kind: 'Event',
    metadata: { name: `${prefix}.${stamp.toString(16)}`, namespace: regarding.namespace ?? 'default' },
    eventTime: toMicroTime(firstSeen),
    reportingController: 'vipnat',
    reportingInstance: reporter.slice(0, maxInstanceLength),
    ...describeReason(reason),
    reason,
    regarding,
    note: cutBytes(toPrintableLine(note), maxNoteBytes),
    ...(count === 1 ? {} : { series: { count, lastObservedTime: toMicroTime(lastSeen) } }),
  };
}

/** As much of a text as has so many bytes, with a sign that there was more, and no half characters. */
function cutBytes(text: string, maxBytes: number): string {
  const bytes = Buffer.from(text);
  if (bytes.length <= maxBytes) return text;
  const more = '…';
  // As a stream: of a character that is cut in two, it waits for the rest.
  const kept = new TextDecoder().decode(bytes.subarray(0, maxBytes - Buffer.byteLength(more)), {
    stream: true,
  });
  return `${kept}${more}`;
}
