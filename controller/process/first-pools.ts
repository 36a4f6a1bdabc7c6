/**
 * The pools that a manifest asks for.
 *
 * Goal: one `kubectl apply` of what `vipnat manifest services --pool` prints is enough.
 * Tension: kubectl asks the API for each kind before it creates anything, so it refuses an AddressPool beside its own definition.
 * Compromise: the manifest has a ConfigMap, and the controller that leads creates its pools. It creates, and never changes: a pool is
 * its owner's from then on. The ConfigMap keeps a sum of what was created, so that a deleted pool does not come back.
 */
import { createHash } from 'node:crypto';
import * as z from 'zod/mini';
import { backOff } from '../../lib/control/backoff.ts';
import { type Clock } from '../../lib/control/clock.ts';
import { Pause } from '../../lib/control/pause.ts';
import { version } from '../../lib/kubernetes/api-object.ts';
import { type ObjectClient } from '../../lib/kubernetes/object-client.ts';
import { type WriteAnswer } from '../../lib/kubernetes/write-object.ts';
import { apiGroup, apiVersion, firstPools, firstPoolsSum } from '../../lib/services/names.ts';
import { addressPools } from '../../lib/services/objects.ts';

/** What creating pools takes, and its listeners. */
export interface FirstPoolsOptions {
  readonly client: ObjectClient;
  readonly clock: Clock;
  /** Where the ConfigMap is. */
  readonly namespace: string;
  /** How long a write may take that begins now; 0 for one that may not begin. */
  readonly writeMs: () => number;
  /** A pool was created. */
  readonly onCreated: (pool: string) => void;
  /** There was one of that name before, whose addresses stay as they are. */
  readonly onExisting: (pool: string) => void;
  /** It did not succeed, and is tried again. Told each time. */
  readonly onProblem: (words: string) => void;
}

/** Of the ConfigMap: each key is the name of a pool, and each line of its value a range of addresses. */
const schema = z.object({
  metadata: z.object({
    resourceVersion: version,
    annotations: z.nullish(z.record(z.string(), z.string())),
  }),
  data: z.nullish(z.record(z.string(), z.string())),
});

type FirstPoolsMap = z.output<typeof schema>;

const firstWaitMs = 1000;
const maxWaitMs = 60_000;
const readMs = 4000;

/** Creates the pools of the ConfigMap once while this process leads, from `start` to `stop`. */
export class FirstPools {
  readonly #options: FirstPoolsOptions;
  readonly #pause: Pause;
  #isStopped = false;
  #running: Promise<void> = Promise.resolve();

  constructor(options: FirstPoolsOptions) {
    this.#options = options;
    this.#pause = new Pause(options.clock);
  }

  /** Begins. Not to be called twice. */
  start(): void {
    this.#running = this.#run();
  }

  /** Ends when a write under way has. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#pause.stop();
    await this.#running;
  }

  async #run(): Promise<void> {
    for (let failures = 0; !this.#isStopped; failures += 1) {
      const problem = await this.#create();
      if (problem === null) return;
      this.#options.onProblem(problem);
      await this.#pause.wait(backOff(failures, firstWaitMs, maxWaitMs));
    }
  }

  /** Answers what went wrong; null where everything is done. */
  async #create(): Promise<string | null> {
    const { client, namespace } = this.#options;
    const path = `/api/v1/namespaces/${namespace}/configmaps/${firstPools}`;
    const title = `reading ConfigMap ${namespace}/${firstPools}`;
    const answer = await client.read({ title, path, schema }, readMs);
    if (answer.outcome === 'gone') return null;
    if (answer.outcome !== 'found') return answer.words;
    const { data, metadata } = answer.object;
    const sum = toSum(data);
    if (data == null || metadata.annotations?.[firstPoolsSum] === sum) return null;
    for (const [name, ranges] of Object.entries(data)) {
      const problem = await this.#createPool(name, ranges);
      if (problem !== null) return problem;
    }
    return await this.#noteSum(path, metadata.resourceVersion, sum);
  }

  async #createPool(name: string, ranges: string): Promise<string | null> {
    const { onCreated, onExisting } = this.#options;
    const addresses = ranges.split('\n').filter((range) => range !== '');
    const body = { apiVersion: `${apiGroup}/${apiVersion}`, kind: 'AddressPool', metadata: { name } };
    const answer = await this.#write(`creating AddressPool ${name}`, {
      method: 'POST',
      path: addressPools.path,
      body: { ...body, spec: { addresses } },
    });
    if (answer === null) return null;
    if (answer.outcome === 'taken') onCreated(name);
    else if (answer.outcome === 'exists') onExisting(name);
    else return answer.words;
    return null;
  }

  async #noteSum(path: string, resourceVersion: string, sum: string): Promise<string | null> {
    const body = { metadata: { resourceVersion, annotations: { [firstPoolsSum]: sum } } };
    const answer = await this.#write('noting which pools were created', { method: 'PATCH', path, body });
    return answer === null || answer.outcome === 'taken' || answer.outcome === 'gone' ? null : answer.words;
  }

  /** Null where this process leads no more: the next leader does it. */
  async #write(
    title: string,
    write: { readonly method: 'POST' | 'PATCH'; readonly path: string; readonly body: object },
  ): Promise<WriteAnswer | null> {
    const limitMs = this.#options.writeMs();
    if (limitMs === 0) this.#isStopped = true;
    return this.#isStopped ? null : await this.#options.client.write({ title, ...write }, limitMs);
  }
}

function toSum(data: FirstPoolsMap['data']): string {
  const entries = Object.entries(data ?? {}).toSorted(([first], [second]) => (first < second ? -1 : 1));
  return createHash('sha256').update(JSON.stringify(entries)).digest('hex').slice(0, 16);
}
