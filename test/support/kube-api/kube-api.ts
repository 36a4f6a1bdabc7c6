import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import { type AddressInfo, type Socket } from 'node:net';
import { type Duplex } from 'node:stream';
import { type Manner, refuse, respond, send, toStatus } from './kube-answers.ts';
import { eventsPath, KubeEvents } from './kube-events.ts';
import { KubeLeases, leasesPattern } from './kube-leases.ts';
import { type Event, type Kind, KubeStore } from './kube-store.ts';
import { agentQuestions, type Questions } from './questions.ts';
import { isAskedFor } from './selectors.ts';

/** The only name that may be asked for, see the role in cli/manifest/rights.ts. */
const allowedName = 'kubernetes';
interface Watcher {
  readonly kind: Kind;
  readonly response: ServerResponse;
  readonly tell: (event: Event) => void;
}

/**
 * An apiserver for default/kubernetes, over HTTPS on a loopback address. It lists, watches and takes events as kube-apiserver does,
 * for who shows the token, and notes every question that a client may not ask.
 */
export class KubeApi {
  /** The paths and queries of all questions so far. */
  readonly questions: string[] = [];
  /** Questions that kube-apiserver would answer otherwise than the client thinks. */
  readonly breaches: string[] = [];
  readonly store: KubeStore;
  readonly events = new KubeEvents(this.breaches);
  readonly leases = new KubeLeases();
  /** Whether the role of who shows the token says nothing of events. */
  forbidsEvents = false;
  /** The kind of which it says nothing either. */
  forbids: Kind | null = null;
  /** Labels whose objects may not be asked for. */
  forbiddenLabel: string | null = null;
  /** Whether the role allows all objects of a namespace to be listed and watched, and not only the one of a name. */
  allowsAll = false;
  /** Whether the versions of lists that were begun are forgotten before they end. */
  forgetsLists = false;
  /** Pages with more objects than this never end; null: each does. */
  mostInTime: number | null = null;
  manner: Manner = 'well';
  /** Whether each watch ends as soon as it has begun, as behind a proxy that cuts it. */
  endsWatches = false;
  /** How a watch from a forgotten version is refused: by an event, or by the answer itself. */
  refusesBy: 'event' | 'status' = 'event';
  readonly #server: Server;
  readonly #sockets = new Set<Duplex>();
  /** The clients' ports of connections whose question has not come yet. */
  readonly #expected = new Set<number | undefined>();
  readonly #watchers = new Set<Watcher>();
  readonly #token: string;
  readonly #questions: Questions;
  readonly port: number;

  private constructor(server: Server, store: KubeStore, [token, questions]: [string, Questions]) {
    this.#server = server;
    this.store = store;
    this.#token = token;
    this.#questions = questions;
    this.port = (server.address() as AddressInfo).port;
    server.on('connection', (socket: Socket) => {
      const { remotePort } = socket;
      this.#sockets.add(socket);
      this.#expected.add(remotePort);
      const forget = () => this.#sockets.delete(socket) && this.#expected.delete(remotePort);
      socket.on('error', () => undefined).on('close', forget);
    });
    server.on('tlsClientError', () => undefined);
    server.on('request', (request, response) => {
      this.#expected.delete(request.socket.remotePort);
      this.#answer(request, response);
    });
  }

  /** Starts one on a loopback address, on any free port unless one is given. */
  static async start(options: {
    readonly pair: { readonly certificate: string; readonly key: string };
    readonly store?: KubeStore;
    readonly token?: string;
    readonly host?: string;
    readonly port?: number;
    /** What there is to be asked for: default/kubernetes unless given. */
    readonly questions?: Questions;
  }): Promise<KubeApi> {
    const { pair, store = new KubeStore(), token = 'a token', host = '127.0.0.1', port = 0 } = options;
    const server = createServer({ cert: readFileSync(pair.certificate), key: readFileSync(pair.key) });
    server.listen({ host, port });
    await once(server, 'listening');
    return new KubeApi(server, store, [token, options.questions ?? agentQuestions]);
  }

  get watches(): number {
    return this.#watchers.size;
  }

  /** Whether somebody has connected, and is about to ask. */
  get isAboutToBeAsked(): boolean {
    return this.#expected.size > 0;
  }

  /** Tells all who watch how far it has come. */
  bookmark(): void {
    for (const { kind, response } of this.#watchers) {
      const metadata = { resourceVersion: String(this.store.version) };
      send(response, { type: 'BOOKMARK', object: { kind, metadata } });
    }
  }

  sendText(text: string): void {
    for (const { response } of this.#watchers) response.write(text);
  }

  /** Sends whatever to all who watch a kind. */
  sendTo(wanted: Kind, text: string): void {
    for (const { kind, response } of this.#watchers) if (kind === wanted) response.write(text);
  }

  /** All watches stay open, and nothing is sent by them any more. */
  freezeWatches(): void {
    for (const watcher of this.#watchers) this.store.watchers.delete(watcher.tell);
    this.#watchers.clear();
  }

  endWatches(): void {
    for (const { response } of this.#watchers) response.end();
  }

  breakConnections(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  async stop(): Promise<void> {
    this.breakConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const url = new URL(request.url ?? '/', 'https://kubernetes');
    this.questions.push(`${url.pathname}${url.search}`);
    const kind = this.#findKind(url.pathname);
    const isList = kind !== undefined && request.method === 'GET';
    const isWrite = url.pathname.startsWith(eventsPath) || leasesPattern.test(url.pathname);
    if (!isList && isWrite) return void this.#answerWrite(request, response, url.pathname);
    if (kind === undefined || !this.#isAsked(url, request)) {
      respond(response, 404, toStatus(404, 'not found'));
      return;
    }
    const manner = this.#receive(request, kind);
    if (manner !== 'well') refuse(response, manner);
    else if (url.searchParams.get('watch') === 'true') this.#watch(kind, url, response);
    else this.#list(kind, url, response);
  }

  #findKind(path: string): Kind | undefined {
    const isOf = (one: Kind) => [this.#questions[one]?.path, this.#questions[one]?.allPath].includes(path);
    return (Object.keys(this.#questions) as Kind[]).find(isOf);
  }

  #receive({ headers, url }: IncomingMessage, kind: Kind | null = null): Manner {
    const isForbidden = decodeURIComponent(url ?? '').includes(this.forbiddenLabel ?? '\n');
    if (isForbidden || (kind !== null && kind === this.forbids)) return 'forbidding';
    return headers.authorization === `Bearer ${this.#token}` ? this.manner : 'unauthorized';
  }

  async #answerWrite(request: IncomingMessage, response: ServerResponse, pathname: string): Promise<void> {
    const manner = this.#receive(request);
    if (manner !== 'well') {
      refuse(response, manner);
      return;
    }
    const { code, body } = await this.#write(request, pathname);
    respond(response, code, typeof body === 'string' ? toStatus(code, body) : body);
  }

  async #write(request: IncomingMessage, pathname: string): Promise<{ code: number; body: object | string }> {
    if (leasesPattern.test(pathname)) return await this.leases.answer(request, pathname);
    if (!this.forbidsEvents) return await this.events.answer(request, pathname);
    return { code: 403, body: 'events.events.k8s.io is forbidden: User "x" cannot create resource "events"' };
  }

  #isAsked({ searchParams }: URL, { method = '' }: IncomingMessage): boolean {
    const isWatch = searchParams.get('watch') === 'true';
    const isByName = searchParams.get('fieldSelector') === `metadata.name=${allowedName}`;
    const problems = [
      ...(method === 'GET' ? [] : [`method ${method}`]),
      ...(isByName || this.allowsAll ? [] : ['not default/kubernetes by its name']),
      ...(isWatch && Number(searchParams.get('timeoutSeconds')) <= 0 ? ['a watch without end'] : []),
      ...(isWatch && (searchParams.get('resourceVersion') ?? '') === '' ? ['a watch from anywhere'] : []),
    ];
    this.breaches.push(...problems);
    return problems.length === 0;
  }

  #list(kind: Kind, { searchParams }: URL, response: ServerResponse): void {
    const token = searchParams.get('continue');
    if (token !== null && this.forgetsLists) {
      respond(response, 410, toStatus(410, 'The provided continue parameter is too old'));
      return;
    }
    const asked = [...this.store.objects[kind].values()].filter((object) => isAskedFor(object, searchParams));
    const from = asked.findIndex(({ metadata: { name } }) => name === token) + 1;
    const apiVersion = this.#questions[kind]?.apiVersion;
    const limit = Number(searchParams.get('limit') ?? 0);
    const items = asked.slice(from, limit === 0 ? undefined : from + limit);
    if (this.mostInTime !== null && items.length > this.mostInTime) return;
    const metadata = {
      resourceVersion: String(this.store.version),
      ...(from + items.length < asked.length ? { continue: items.at(-1)?.metadata.name } : {}),
    };
    respond(response, 200, { kind: `${kind}List`, apiVersion, metadata, items });
  }

  #watch(kind: Kind, { searchParams }: URL, response: ServerResponse): void {
    const from = Number(searchParams.get('resourceVersion'));
    const isGone = from < this.store.oldest;
    const gone = toStatus(410, `too old resource version: ${from} (${this.store.oldest})`);
    if (isGone && this.refusesBy === 'status') {
      respond(response, 410, gone);
      return;
    }
    response.writeHead(200, { 'content-type': 'application/json' });
    response.flushHeaders();
    if (this.endsWatches) {
      response.end();
      return;
    }
    if (isGone) {
      send(response, { type: 'ERROR', object: gone });
      response.end();
      return;
    }
    const tell = (event: Event) => {
      const isAsked = event.kind === kind && isAskedFor(event.object, searchParams);
      if (isAsked && event.version > from) send(response, { type: event.type, object: event.object });
    };
    this.store.events.forEach(tell);
    this.store.watchers.add(tell);
    const watcher = { kind, response, tell };
    this.#watchers.add(watcher);
    response.on('close', () => {
      this.store.watchers.delete(tell);
      this.#watchers.delete(watcher);
    });
  }
}
