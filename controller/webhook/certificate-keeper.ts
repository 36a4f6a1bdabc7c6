import { backOff } from '../../lib/control/backoff.ts';
import { type Clock } from '../../lib/control/clock.ts';
import { Pause } from '../../lib/control/pause.ts';
import { type ObjectClient } from '../../lib/kubernetes/object-client.ts';
import { type ObjectWrite } from '../../lib/kubernetes/write-object.ts';
import { toServerName, webhookEntry } from '../../lib/services/injection.ts';
import { webhookName } from '../../lib/services/names.ts';
import { makePair, type ReadPair, readPair } from './certificate.ts';
import { type CertificateStep, planCertificates, readPairs, secretFields } from './plan-certificates.ts';
import {
  readTrusted,
  toSecretPath,
  type WebhookConfiguration,
  webhookConfigurations,
  type WebhookSecret,
} from './webhook-objects.ts';

/** What keeping needs of the world, and its listeners. */
export interface KeeperOptions {
  readonly client: ObjectClient;
  readonly clock: Clock;
  readonly namespace: string;
  /** How long a write may take that begins now; 0 for one that may not begin, as in a process that does not lead. */
  readonly writeMs: () => number;
  /** With which pair to serve from now on. */
  readonly onPair: (pair: ReadPair) => void;
  /** A step was written. */
  readonly onStep: (step: CertificateStep['step'], pair: ReadPair | null) => void;
  /** It was not, and is tried again. Told each time. */
  readonly onProblem: (words: string) => void;
}

/** How long until a write is seen, and how often who does not lead looks whether it does. */
const lookMs = 1000;

/** So long it waits at most after a write that failed, or that somebody undid. */
const maxWaitMs = 60_000;

/** A Secret that somebody deletes again and again makes no more certificates than that. */
const makeMs = 60_000;

/** Keeps the Secret and the configuration as they have to be, while this process leads; and says with which pair to serve, in each process. */
export class CertificateKeeper {
  readonly #options: KeeperOptions;
  readonly #name: string;
  readonly #pause: Pause;
  /** Undefined until it is known. */
  #secret: WebhookSecret | null | undefined;
  #configuration: WebhookConfiguration | null = null;
  /** What API servers trust, and since when as it is now. Null until it is known. */
  #trusted: { readonly text: string | null; readonly atMs: number } | null = null;
  #madeAt = -Infinity;
  #served: ReadPair | null = null;
  /** Writes in a row that were not taken, or only put back what another had replaced. */
  #futile = 0;
  /** What API servers were last told to trust. */
  #told: string | null = null;
  #restUntil = -Infinity;
  #isStopped = false;
  #running: Promise<void> = Promise.resolve();

  constructor(options: KeeperOptions) {
    this.#options = options;
    this.#name = toServerName(options.namespace);
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

  /** The Secret as it is now; null for none. */
  setSecret(secret: WebhookSecret | null): void {
    this.#secret = secret;
    const { current, next } = readPairs(this.#name, secret?.data ?? {});
    // Without a pair to serve, what was served so far is still trusted.
    const pair = current ?? this.#served ?? next;
    if (pair !== null && pair.certificate !== this.#served?.certificate) this.#options.onPair(pair);
    this.#served = pair;
    this.#pause.wake();
  }

  /** The configuration as it is now; null for none. */
  setConfiguration(configuration: WebhookConfiguration | null): void {
    this.#configuration = configuration;
    const text = readTrusted(configuration);
    if (this.#trusted?.text !== text) this.#trusted = { text, atMs: this.#options.clock.now() };
    this.#pause.wake();
  }

  /** Whether API servers trust what this process serves with; null before that is known. */
  get isTrusted(): boolean | null {
    if (this.#served === null || this.#trusted === null) return null;
    return this.#trusted.text?.includes(this.#served.certificate) ?? false;
  }

  async #run(): Promise<void> {
    while (!this.#isStopped) await this.#pause.wait(await this.#advance());
  }

  /** Takes a step. Answers how long to wait. Who is woken by each change does not write at each: another may write as often. */
  async #advance(): Promise<number> {
    const pauseMs = this.#restUntil - this.#options.clock.now();
    if (pauseMs > 0) return pauseMs;
    const step = this.#options.writeMs() === 0 ? null : this.#plan();
    if (step === null) return lookMs;
    if (step.step === 'wait') return step.ms;
    const restMs = this.#madeAt + makeMs - this.#options.clock.now();
    return step.step === 'make' && restMs > 0 ? restMs : await this.#write(step);
  }

  /** Null before everything is known. */
  #plan(): CertificateStep | null {
    const { clock } = this.#options;
    if (this.#secret === undefined || this.#trusted === null) return null;
    const { text, atMs } = this.#trusted;
    return planCertificates({
      ...{ name: this.#name, data: this.#secret?.data ?? {} },
      ...{ trusted: text, trustedForMs: clock.now() - atMs, nowMs: clock.date().getTime() },
    });
  }

  async #write(step: Exclude<CertificateStep, { step: 'wait' }>): Promise<number> {
    const { client, writeMs, onStep, onProblem } = this.#options;
    const [write, pair] = await this.#toWrite(step);
    const limitMs = writeMs();
    if (limitMs === 0 || this.#isStopped) return lookMs;
    const { outcome, words } = await client.write(write, limitMs);
    if (outcome === 'taken') onStep(step.step, pair);
    // Another was first: what it has written is on its way here.
    const isDone = ['taken', 'conflict', 'exists', 'gone'].includes(outcome);
    if (!isDone) onProblem(words);
    return this.#rest(step, isDone);
  }

  /** Answers how long to wait after a write. */
  #rest(step: CertificateStep, isDone: boolean): number {
    const { clock } = this.#options;
    const told = step.step === 'trust' ? step.trusted : null;
    const isAgain = told !== null && told === this.#told && clock.now() - this.#restUntil < maxWaitMs;
    this.#futile = isDone && !isAgain ? 0 : this.#futile + 1;
    this.#told = told;
    const restMs = backOff(this.#futile, lookMs, maxWaitMs);
    this.#restUntil = clock.now() + restMs;
    return restMs;
  }

  async #toWrite(
    step: Exclude<CertificateStep, { step: 'wait' }>,
  ): Promise<[write: ObjectWrite, pair: ReadPair | null]> {
    const { certificate, key, nextCertificate, nextKey, previous } = secretFields;
    if (step.step === 'trust') return [this.#toTrust(step.trusted), null];
    if (step.step === 'serve') {
      const data = { [certificate]: step.pair.certificate, [key]: step.pair.key, [previous]: step.previous };
      return [this.#toSecret({ ...data, [nextCertificate]: null, [nextKey]: null }), step.pair];
    }
    this.#madeAt = this.#options.clock.now();
    const made = await makePair(this.#name, this.#options.clock.date());
    const data = { [nextCertificate]: made.certificate, [nextKey]: made.key, [previous]: step.previous };
    return [this.#toSecret(data), readPair(this.#name, made.certificate, made.key)];
  }

  /** Fields of null go. */
  #toSecret(fields: Readonly<Record<string, string | null>>): ObjectWrite {
    const path = toSecretPath(this.#options.namespace);
    const toBytes = (text: string) => Buffer.from(text).toString('base64');
    const data = Object.fromEntries(
      Object.entries(fields).map(([field, text]) => [field, text === null ? null : toBytes(text)]),
    );
    if (this.#secret == null) {
      const title = `creating Secret ${webhookName}`;
      const metadata = { name: webhookName, labels: { 'app.kubernetes.io/name': webhookName } };
      const present = Object.fromEntries(Object.entries(data).filter(([, text]) => text !== null));
      const body = { apiVersion: 'v1', kind: 'Secret', metadata, type: 'Opaque', data: present };
      return { title, method: 'POST', path, body };
    }
    const { resourceVersion } = this.#secret.metadata;
    const title = `writing Secret ${webhookName}`;
    const body = { metadata: { resourceVersion }, data };
    return { title, method: 'PATCH', path: `${path}/${webhookName}`, body };
  }

  /** The list of webhooks is merged by their names, so everything else of the configuration stays its owner's. */
  #toTrust(trusted: string): ObjectWrite {
    const clientConfig = { caBundle: Buffer.from(trusted).toString('base64') };
    const { resourceVersion } = this.#configuration?.metadata ?? {};
    return {
      title: `writing MutatingWebhookConfiguration ${webhookName}`,
      ...{ method: 'PATCH', isStrategic: true, path: `${webhookConfigurations.path}/${webhookName}` },
      body: { metadata: { resourceVersion }, webhooks: [{ name: webhookEntry, clientConfig }] },
    };
  }
}
