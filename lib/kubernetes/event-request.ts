import * as z from 'zod/mini';
import { VipnatError } from '../text/errors.ts';
import { exchange } from './exchange.ts';
import { type ApiCall, type ApiMessage, describeStatus } from './request.ts';
import { type Connection } from './route.ts';
import { formatServer } from './servers.ts';

/** An event of events.k8s.io/v1, of this name. Those about what has no namespace are in `default`. Source: events.k8s.io/v1. */
export interface ApiEvent {
  readonly metadata: { readonly name: string; readonly namespace: string };
  readonly series?: object;
  readonly [field: string]: unknown;
}

/** What became of an event that was sent. */
export interface EventAnswer {
  readonly outcome:
    /** The API has it. */
    | 'taken'
    /** The API has forgotten the event that was to be changed. */
    | 'gone'
    /** The credentials do not allow it. */
    | 'forbidden'
    /** The API will never take this one. */
    | 'refused';
  /** What was answered, as a sentence that can go on. */
  readonly words: string;
}

/** What sending takes. */
export type EventOptions = Connection & Pick<ApiCall, 'clock' | 'forbidden' | 'signal'>;

/** An apiserver answers in milliseconds; nobody waits for it. */
const limitMs = 5000;

/**
 * Creates an event. One of the same name that is there already is an earlier try whose answer was lost.
 * @throws VipnatError API_UNREACHABLE, API_UNTRUSTED, API_FORBIDDEN for 401, or API_ANSWER_UNEXPECTED
 */
export async function createEvent(options: EventOptions, event: ApiEvent): Promise<EventAnswer> {
  const message = { method: 'POST', contentType: 'application/json', text: JSON.stringify(event) } as const;
  return await sendEvent(options, toCollection(event), message);
}

/**
 * Tells how often the same has happened since an event was created. What else it says cannot be changed.
 * @throws VipnatError as `createEvent`
 */
export async function updateSeries(options: EventOptions, event: ApiEvent): Promise<EventAnswer> {
  const contentType = 'application/merge-patch+json';
  const message = { method: 'PATCH', contentType, text: JSON.stringify({ series: event.series }) } as const;
  return await sendEvent(options, `${toCollection(event)}/${event.metadata.name}`, message);
}

function toCollection({ metadata: { namespace } }: ApiEvent): string {
  return `/apis/events.k8s.io/v1/namespaces/${namespace}/events`;
}

/** A Status, or the event as the API has it now. */
const maxAnswerLength = 100_000;

const statusToOutcome: ReadonlyMap<number, EventAnswer['outcome']> = new Map([
  [200, 'taken'],
  [201, 'taken'],
  [403, 'forbidden'],
  [404, 'gone'],
  [409, 'taken'],
  [400, 'refused'],
  [413, 'refused'],
  [422, 'refused'],
]);

const accepted = new Set(statusToOutcome.keys());

async function sendEvent(options: EventOptions, path: string, message: ApiMessage): Promise<EventAnswer> {
  const title = 'writing an event';
  const limits = { beginMs: limitMs, endMs: limitMs };
  const call = { ...options, title, path, limits, message, accepted };
  const { status, text } = await exchange(call, maxAnswerLength);
  const what = `${title} at ${formatServer(options.server)}`;
  if (status < 300 && !isEvent(text))
    throw new VipnatError('API_ANSWER_UNEXPECTED', `${what} failed: the answer is not an event`);
  return {
    outcome: isEnding(text) ? 'refused' : (statusToOutcome.get(status) ?? 'refused'),
    words: `${what} is answered with ${status}${describeStatus(text)}`,
  };
}

const ending = z.object({
  code: z.literal(403),
  details: z.object({ causes: z.array(z.object({ reason: z.string() })) }),
});

/** Whether the event's namespace is being deleted: no right would help. The reason is Kubernetes' (NamespaceTerminatingCause). */
function isEnding(body: string): boolean {
  try {
    const { causes } = ending.parse(JSON.parse(body)).details;
    return causes.some(({ reason }) => reason === 'NamespaceTerminating');
  } catch {
    return false;
  }
}

const event = z.object({ kind: z.literal('Event') });

function isEvent(body: string): boolean {
  try {
    return event.safeParse(JSON.parse(body)).success;
  } catch {
    return false;
  }
}
