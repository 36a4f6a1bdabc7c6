import type { WriteOutcome, ObjectClient, ReadAnswer, WriteAnswer } from '../../../lib/kubernetes/writes.ts';
import { FakeClock } from './clock.ts';
import { ObjectApi, type Written } from './object-api.ts';
import { Engine, type Execution } from '../../../controller/engine.ts';
import type { NodeReport } from '../../../lib/api/node.ts';
import { loadBalancerClass, virtualIps, addressPools } from '../../../lib/api/vipnat.ts';
import { makeReport } from './service-objects.ts';
import type { Clock } from '../../../lib/clock.ts';
import { serviceKinds, kinds } from '../../../controller/leadership.ts';
import { TokenQueue } from '../../../lib/queue.ts';
import { formatKey } from '../../../controller/step.ts';
import type { Affected } from '../../../controller/cache/known.ts';
import { services } from '../../../lib/api/service.ts';
import { Cache } from '../../../controller/cache/cache.ts';
import { countMost } from './sent-log.ts';
import { toGateTypes } from '../../../lib/api/endpoints.ts';

/** One request that reached the API, or was to reach it. */
interface Sent {
  readonly atMs: number;
  /** `METHOD PATH`. */
  readonly what: string;
  readonly outcome: WriteOutcome;
}

/** An engine on an API in memory, with an informer that shows each write after a moment. */
export class EngineWorld {
  readonly clock = new FakeClock(undefined, 2);
  readonly api: ObjectApi;
  cache = createCache();
  engine: Engine;
  readonly #reports = new Map<string, NodeReport>();
  readonly sent: Sent[] = [];
  readonly failed: Execution['result'][] = [];
  /** Whose writes do not stay. */
  readonly conflicts: string[] = [];
  /** What is answered in place of what the API would; null for the API's own word. */
  answer: ((path: string) => WriteOutcome | null) | null = null;
  /** Paths of which the API takes what is written, and keeps nothing of it. */
  drops: ((path: string) => boolean) | null = null;
  /** Whether a write's answer is lost after the write is done. */
  losesAnswer: ((what: string) => boolean) | null = null;
  /** Kinds whose changes are not shown. */
  readonly unresponsive = new Set<string>();
  /** Kinds of which what is known was found to be old. */
  readonly behind: string[] = [];
  readonly read: string[] = [];
  answerMs = 2;
  /** After how long a write is shown; null for never. */
  shownMs: number | null = 5;
  dateOffsetMs = 0;
  isLeading = true;

  constructor() {
    const { clock } = this;
    this.api = new ObjectApi(
      () => clock.date().getTime(),
      (written) => {
        this.#show(written);
      },
    );
    this.engine = this.#createEngine();
  }

  /** With a pool and so many Services. */
  async begin(services: number, addresses = '10.0.0.0/18'): Promise<void> {
    this.api.create('AddressPool', 'pool', { spec: { addresses: [addresses], seats: 1, reuseAfter: '60s' } });
    this.createServices(services);
    await this.clock.advance(10);
    this.engine.begin();
  }

  async stop(): Promise<void> {
    const stopped = this.engine.stop();
    await this.clock.advance(10_000);
    await stopped;
  }

  createServices(count: number, prefix = 's', namespace = 'apps'): void {
    const spec = {
      ...{ type: 'LoadBalancer', loadBalancerClass, ipFamilies: ['IPv4'], ipFamilyPolicy: 'SingleStack' },
      ports: [{ protocol: 'TCP', port: 80 }],
    };
    for (let index = 0; index < count; index += 1)
      this.api.create('Service', `${namespace}/${prefix}${index}`, { spec });
  }

  /** A node that has everything at once, and holds the first seat, unless its report says otherwise. */
  createNode(name = 'node-1', report = makeReport(name, 1_000_000_000)): void {
    const node = { metadata: { name, uid: name, resourceVersion: '1', generation: 0 } };
    this.engine.enqueue(this.cache.take('nodes', { key: name, after: node }), null);
    this.hear(report);
  }

  /** A node's Lease says something new. */
  hear(report: NodeReport): void {
    this.#reports.set(report.node, report);
    this.engine.enqueue(this.cache.takeReport(report.node, report), null);
  }

  /** kill -9, and the next process: it lists all, and hears the nodes' reports anew. */
  async restart(): Promise<void> {
    await Promise.all([this.engine.stop(), this.clock.advance(this.answerMs)]);
    this.cache = createCache();
    this.engine = this.#createEngine();
    for (const kind of ['Service', 'VirtualIP', 'AddressPool'] as const)
      for (const [key, after] of this.api.list(kind)) this.#show({ kind, key, before: null, after });
    for (const report of this.#reports.values()) this.createNode(report.node, report);
    await this.clock.advance(this.shownMs ?? 0);
    this.engine.begin();
  }

  listServed(): string[] {
    return [...this.api.list('Service')]
      .filter(([, { status }]) => JSON.stringify(status ?? {}).includes('"ip"'))
      .map(([key]) => key);
  }

  findHighestRate(): number {
    return countMost(
      this.sent.map(({ atMs }) => atMs),
      1000,
    );
  }

  #createEngine(): Engine {
    const { clock } = this;
    const dated: Clock = {
      now: () => clock.now(),
      date: () => new Date(clock.date().getTime() + this.dateOffsetMs),
      schedule: (delayMs, callback) => clock.schedule(delayMs, callback),
    };
    return new Engine({
      ...{ clock: dated, random: () => 0.5, cache: this.cache, kinds: serviceKinds },
      client: this.#createClient(),
      pace: new TokenQueue({ capacity: 20, refillMs: 50 }, clock),
      writeMs: () => (this.isLeading ? 4000 : 0),
      onWritten: () => undefined,
      onConflict: (key, managers) => this.conflicts.push(`${formatKey(key)} ${managers.join()}`),
      onFailed: (_, { result }) => this.failed.push(result),
      onBehind: (kind) => this.behind.push(kind),
      onError: (key, error) => {
        throw new Error(formatKey(key), { cause: error });
      },
    });
  }

  #createClient(): ObjectClient {
    return {
      read: ({ path, schema }) => this.#after(() => this.#read(path, (object) => schema.parse(object))),
      write: (write) =>
        this.#after(() => {
          const outcome = this.answer?.(write.path) ?? null;
          const answer =
            outcome === null ? this.#write(write as never) : { outcome, detail: outcome, version: null };
          const what = `${write.method} ${write.path}`;
          this.sent.push({ atMs: this.clock.now(), what, outcome: answer.outcome });
          if (this.losesAnswer?.(what) !== true) return answer;
          return { outcome: 'unreachable', detail: 'no answer', version: null };
        }),
    };
  }

  #after<T>(act: () => T): Promise<T> {
    return new Promise((resolve) => {
      this.clock.schedule(this.answerMs, () => {
        resolve(act());
      });
    });
  }

  #read<T>(path: string, parse: (object: unknown) => T): ReadAnswer<T> {
    this.read.push(path);
    const resourceVersion = this.api.getVersion(path);
    if (resourceVersion === null) return { outcome: 'gone' };
    return { outcome: 'found', object: parse({ metadata: { resourceVersion } }) };
  }

  #write(write: Parameters<ObjectApi['handle']>[0]): WriteAnswer {
    if (this.drops?.(write.path) === true)
      return { outcome: 'taken', detail: '', version: this.api.getVersion(write.path) };
    const status = this.api.handle(write);
    const outcomes: Readonly<Record<number, WriteOutcome>> = { 404: 'gone', 409: 'conflict' };
    const { metadata } = write.body as { readonly metadata?: { readonly name?: string } };
    const path = write.method === 'POST' ? `${write.path}/${metadata?.name ?? ''}` : write.path;
    const version = status < 300 ? this.api.getVersion(path) : null;
    return {
      outcome: status < 300 ? 'taken' : (outcomes[status] ?? 'refused'),
      detail: String(status),
      version,
    };
  }

  #show({ kind, key, after }: Written): void {
    if (this.shownMs === null || this.unresponsive.has(kind)) return;
    const read = <T>(schema: { parse: (object: unknown) => T }) => ({
      key,
      after: after === null ? null : schema.parse(after),
    });
    const tell = (affected: Affected) => {
      this.engine.enqueue(affected, `${kind}/${key}`);
    };
    this.clock.schedule(this.shownMs, () => {
      if (kind === 'Service') tell(this.cache.take('services', read(services.schema)));
      if (kind === 'VirtualIP') tell(this.cache.take('virtualIps', read(virtualIps.schema)));
      if (kind === 'AddressPool') tell(this.cache.take('pools', read(addressPools.schema)));
    });
  }
}

function createCache(): Cache {
  return new Cache({ isDefaultClass: false, gateTypes: toGateTypes([]) }, kinds);
}
