/** An apiserver in memory: lists, watches with bookmarks, single objects; events are told as they come. */
import { type Kind, type StoredObject, ObjectApi, type Written } from '../../../support/fakes/object-api.ts';
import type { OpenWatch, Server, Link, Question, Reply } from './memory-network.ts';
import type { Clock } from '../../../../lib/clock.ts';
import { isAskedFor } from '../../../support/kube-api/selectors.ts';

interface Told {
  readonly version: number;
  readonly kind: Kind;
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  readonly object: StoredObject;
}

interface Following extends OpenWatch {
  readonly kind: Kind;
  /** How many of the events were sent. */
  position: number;
}

const lists: readonly (readonly [RegExp, Kind])[] = [
  [/^\/api\/v1\/services$/, 'Service'],
  [/^\/api\/v1\/pods$/, 'Pod'],
  [/^\/api\/v1\/nodes$/, 'Node'],
  [/^\/api\/v1\/namespaces$/, 'Namespace'],
  [/^\/apis\/discovery\.k8s\.io\/v1\/(?:namespaces\/[^/]+\/)?endpointslices$/, 'EndpointSlice'],
  [/^\/apis\/vipnat\.io\/v1alpha1\/virtualips$/, 'VirtualIP'],
  [/^\/apis\/vipnat\.io\/v1alpha1\/addresspools$/, 'AddressPool'],
  [/^\/apis\/vipnat\.io\/v1alpha1\/loadbalancerdevices$/, 'LoadBalancerDevice'],
  [/^\/apis\/coordination\.k8s\.io\/v1\/namespaces\/[^/]+\/leases$/, 'Lease'],
];

/** As kube-apiserver does. */
const bookmarkMs = 60_000;

/** One apiserver, with the objects that it keeps. */
export class MemoryApi implements Server {
  readonly objects: ObjectApi;
  readonly #clock: Clock;
  readonly #events: Told[] = [];
  #watches: Following[] = [];
  /** Before this version nothing is remembered. */
  #oldest = 0;
  delayMs: number | null = 0;

  constructor(clock: Clock, onWrite: (written: Written) => void) {
    this.#clock = clock;
    this.objects = new ObjectApi(
      () => clock.date().getTime(),
      (written) => {
        this.#note(written);
        onWrite(written);
      },
    );
    this.#sendBookmarks();
  }

  /** Forgets old versions: whoever watches from one of them has to list again. */
  compact(): void {
    this.#oldest = this.objects.version;
    // A watch that is behind is ended with 410.
    for (const watch of this.#watches) if (watch.position < this.#events.length) this.#refuse(watch);
  }

  /** Ends watches, in order or as a server does that is killed. */
  endWatches(isChosen: (link: Link) => boolean, isBroken: boolean): void {
    const chosen = new Set(this.#watches.filter(({ link }) => isChosen(link)));
    for (const watch of chosen) watch.end(isBroken);
    this.#watches = this.#watches.filter((watch) => !chosen.has(watch));
  }

  /** Watches that were cut off hear what they missed. */
  catchUp(): void {
    for (const watch of this.#watches) this.#pump(watch);
  }

  answer(question: Question): Reply {
    const { method, url } = question;
    const kind = findKind(url.pathname);
    if (method === 'GET' && kind !== null) return { status: 200, text: this.#list(kind, url.searchParams) };
    if (/servicecidrs|events/.test(url.pathname)) return toStatus(404, 'NotFound');
    if (method === 'GET') {
      const object = this.objects.find(url.pathname);
      return object === null ? toStatus(404, 'NotFound') : { status: 200, text: JSON.stringify(object) };
    }
    return this.#write(question);
  }

  #write({ method, url, contentType, text }: Question): Reply {
    const body = JSON.parse(text) as { readonly metadata?: { readonly name?: string } };
    const isStrategic = contentType.includes('strategic');
    const status = this.objects.handle({ method, path: url.pathname, body, isStrategic } as never);
    if (status >= 300) return toStatus(status, method === 'POST' ? 'AlreadyExists' : 'Conflict');
    const path = method === 'POST' ? `${url.pathname}/${body.metadata?.name ?? ''}` : url.pathname;
    const object = this.objects.find(path);
    return { status, text: JSON.stringify({ kind: object === null ? 'Status' : 'Object', ...object }) };
  }

  watch(watch: OpenWatch): void {
    const { searchParams, pathname } = watch.question.url;
    const version = Number(searchParams.get('resourceVersion'));
    const kind = findKind(pathname);
    if (kind === null) return;
    const position = this.#events.findIndex((event) => event.version > version);
    const following = { ...watch, kind, position: position < 0 ? this.#events.length : position };
    if (version < this.#oldest) {
      this.#refuse(following);
      return;
    }
    this.#watches = [...this.#watches.filter((one) => one.isOpen()), following];
    this.#pump(following);
    this.#clock.schedule(Number(searchParams.get('timeoutSeconds')) * 1000, () => {
      if (following.isOpen() && following.link.isOpen) following.end(false);
    });
  }

  #refuse(watch: OpenWatch): void {
    const { link } = watch;
    if (!link.isOpen || !watch.isOpen()) return;
    watch.send(JSON.stringify({ type: 'ERROR', object: { kind: 'Status', code: 410, message: 'too old' } }));
    watch.end(false);
  }

  #list(kind: Kind, searchParams: URLSearchParams): string {
    const items = [...this.objects.list(kind).values()].filter((object) =>
      isAskedFor(object as never, searchParams),
    );
    const metadata = { resourceVersion: String(this.objects.version) };
    return JSON.stringify({ kind: `${kind}List`, metadata, items: items.filter(isOfType(searchParams)) });
  }

  #note({ kind, before, after }: Written): void {
    const { version } = this.objects;
    const type = after === null ? 'DELETED' : before === null ? 'ADDED' : 'MODIFIED';
    const object = after ?? before;
    if (object === null) return;
    const metadata = { ...object.metadata, resourceVersion: String(version) };
    this.#events.push({ version, kind, type, object: { ...object, metadata } });
    for (const watch of this.#watches)
      if (watch.kind === kind) watch.link.clock.schedule(watch.link.tripMs, this.#pump.bind(this, watch));
  }

  #pump(watch: Following): void {
    const { link, kind, question } = watch;
    watch.link.clock.run(() => {
      for (; link.isOpen && watch.isOpen() && watch.position < this.#events.length; watch.position += 1) {
        const event = this.#events[watch.position];
        if (event?.kind !== kind || !isAskedFor(event.object as never, question.url.searchParams)) continue;
        const isMeant = isOfType(question.url.searchParams)(event.object);
        const type = isMeant ? event.type : 'DELETED';
        watch.send(JSON.stringify({ type, object: event.object }));
      }
    });
  }

  #sendBookmarks(): void {
    this.#clock.schedule(bookmarkMs, () => {
      for (const watch of this.#watches) {
        this.#pump(watch);
        if (!watch.link.isOpen || !watch.isOpen() || watch.link.clock.isHeld) continue;
        const metadata = { resourceVersion: String(this.objects.version) };
        watch.send(JSON.stringify({ type: 'BOOKMARK', object: { kind: watch.kind, metadata } }));
      }
      this.#sendBookmarks();
    });
  }
}

function findKind(pathname: string): Kind | null {
  return lists.find(([pattern]) => pattern.test(pathname))?.[1] ?? null;
}

/** `spec.type=LoadBalancer`: a Service that is no longer of the type is gone for whoever asks for these. */
function isOfType(searchParams: URLSearchParams): (object: StoredObject) => boolean {
  const [, type] = /^spec\.type=(.*)$/.exec(searchParams.get('fieldSelector') ?? '') ?? [];
  return ({ spec }) => type === undefined || spec?.['type'] === type;
}

function toStatus(status: number, reason: string): Reply {
  return { status, text: JSON.stringify({ kind: 'Status', status: 'Failure', code: status, reason }) };
}
