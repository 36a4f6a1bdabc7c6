import { type IncomingMessage } from 'node:http';
import { readJson, type Reply } from './kube-answers.ts';

interface StoredEvent {
  readonly metadata: { readonly name: string; readonly namespace: string };
  readonly type: string;
  readonly reason: string;
  readonly note: string;
  readonly series?: { readonly count: number; readonly lastObservedTime: string };
  readonly [field: string]: unknown;
}

/** Where events about what has no namespace are. */
export const eventsPath = '/apis/events.k8s.io/v1/namespaces/default/events';

/**
 * The events of the namespace default. They are taken and refused as kube-apiserver 1.36 does it for events.k8s.io/v1:
 * ValidateEventCreate and ValidateEventUpdate in pkg/apis/core/validation/events.go.
 */
export class KubeEvents {
  readonly #nameToEvent = new Map<string, StoredEvent>();
  readonly #breaches: string[];
  /** The note that a ValidatingAdmissionPolicy of the cluster does not let pass, if any. */
  deniedNote: string | null = null;
  /** The note of an event whose namespace is being deleted, if any. */
  endingNote: string | null = null;

  /** Requests that no client may send are added to `breaches`. */
  constructor(breaches: string[]) {
    this.#breaches = breaches;
  }

  /** All that there are, in the order in which they were created. */
  get all(): readonly StoredEvent[] {
    return [...this.#nameToEvent.values()];
  }

  /** As when their hour is over. */
  forget(): void {
    this.#nameToEvent.clear();
  }

  /** Answers a request for the collection or an event in it. */
  async answer(request: IncomingMessage, pathname: string): Promise<Reply> {
    const sent = (await readJson(request)) as StoredEvent;
    const { method, headers } = request;
    if (method === 'POST' && pathname === eventsPath) return this.#create(sent, headers['content-type']);
    const name = pathname.slice(eventsPath.length + 1);
    if (method === 'PATCH') return this.#patch(name, sent, headers['content-type']);
    return this.#refuse(405, 'the server does not allow this method');
  }

  #refuse(code: number, body: string): Reply {
    this.#breaches.push(body);
    return { code, body };
  }

  #create(event: StoredEvent, contentType = ''): Reply {
    if (contentType !== 'application/json') return this.#refuse(415, 'no such media type');
    const { name } = event.metadata;
    const problems = [...findProblems(event), ...findSeriesProblems(event)];
    if (problems.length > 0) return this.#refuse(422, `Event "${name}" is invalid: ${problems.join(', ')}`);
    if (event.note === this.deniedNote) return { code: 422, body: `events "${name}" is forbidden: denied` };
    if (event.note === this.endingNote) return { code: 403, body: toEnding(name) };
    if (this.#nameToEvent.has(name)) return { code: 409, body: `events "${name}" already exists` };
    this.#nameToEvent.set(name, event);
    return { code: 201, body: event };
  }

  #patch(name: string, patch: StoredEvent, contentType = ''): Reply {
    if (contentType !== 'application/merge-patch+json') return this.#refuse(415, 'no such media type');
    const old = this.#nameToEvent.get(name);
    if (old === undefined) return { code: 404, body: `events "${name}" not found` };
    const others = Object.keys(patch).filter((field) => field !== 'series');
    const event = { ...old, ...patch };
    const problems = [...others.map((field) => `${field}: field is immutable`), ...findSeriesProblems(event)];
    if (problems.length > 0) return this.#refuse(422, `Event "${name}" is invalid: ${problems.join(', ')}`);
    this.#nameToEvent.set(name, event);
    return { code: 200, body: event };
  }
}

const subdomain = /^(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const microTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/;

function findProblems(event: StoredEvent): string[] {
  const regarding = event['regarding'] as Readonly<Record<string, string>> | undefined;
  const limits = { reportingController: 63, reportingInstance: 128, action: 128, reason: 128 };
  const isLong = (field: string, limit: number) => Buffer.byteLength(String(event[field])) > limit;
  return [
    ...(subdomain.test(event.metadata.name) ? [] : ['metadata.name: Invalid value']),
    ...(event.metadata.namespace === 'default' ? [] : ['metadata.namespace: does not match']),
    ...(microTime.test(String(event['eventTime'])) ? [] : ['eventTime: Required value']),
    ...(['Normal', 'Warning'].includes(event.type) ? [] : ['type: has invalid value']),
    ...(regarding?.['namespace'] === undefined ? [] : ['involvedObject.namespace: does not match']),
    ...Object.entries(limits).flatMap(([field, limit]) => [
      ...(event[field] === undefined || event[field] === '' ? [`${field}: Required value`] : []),
      ...(isLong(field, limit) ? [`${field}: can have at most ${limit} characters`] : []),
    ]),
    ...(isLong('note', 1024) ? ['message: can have at most 1024 characters'] : []),
  ];
}

function findSeriesProblems({ series }: StoredEvent): string[] {
  if (series === undefined) return [];
  return [
    ...(series.count >= 2 ? [] : ['series.count: should be at least 2']),
    ...(microTime.test(series.lastObservedTime) ? [] : ['series.lastObservedTime: Required value']),
  ];
}

/** As kube-apiserver 1.36 has it. */
function toEnding(name: string): object {
  const message = `events "${name}" is forbidden: unable to create new content in namespace default because it is being terminated`;
  const causes = [{ reason: 'NamespaceTerminating', message: 'namespace default is being terminated' }];
  return { kind: 'Status', status: 'Failure', code: 403, reason: 'Forbidden', message, details: { causes } };
}
