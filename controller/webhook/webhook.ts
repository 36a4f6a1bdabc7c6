/**
 * The webhook that gives new pods of Services a readiness gate and a pause before they end, where the API has no policy for it.
 *
 * Goal: each controller answers, whether it leads or not, so that the end of one does no harm.
 * Tension: a pod must not wait for an answer, and anybody can connect.
 * Compromise: what decides is in memory, of the Services that vipnat serves alone. Nothing is asked while a pod waits.
 */
import { type Clock, sleep } from '../../lib/control/clock.ts';
import { type Random } from '../../lib/control/random.ts';
import { PostServer } from '../../lib/http/post-server.ts';
import { type ApiObject } from '../../lib/kubernetes/api-object.ts';
import { Informer } from '../../lib/kubernetes/informer.ts';
import { type InformerOptions } from '../../lib/kubernetes/informer-options.ts';
import { type ObjectClient } from '../../lib/kubernetes/object-client.ts';
import { type Resource } from '../../lib/kubernetes/resources.ts';
import { type ApiRoute } from '../../lib/kubernetes/route.ts';
import { webhookPath } from '../../lib/services/injection.ts';
import { type ReadPair } from './certificate.ts';
import { CertificateKeeper } from './certificate-keeper.ts';
import { answerReview, type ReviewAnswer } from './review.ts';
import { servedServices, ServicesByNamespace } from './served-services.ts';
import { toSecretResource, webhookConfigurations } from './webhook-objects.ts';
import { type WebhookLog } from './webhook-log.ts';

/** What the webhook needs of the world. */
export interface WebhookOptions {
  readonly route: ApiRoute;
  readonly client: ObjectClient;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: WebhookLog;
  readonly namespace: string;
  /** At all addresses of this host. 0 takes any that is free. */
  readonly port: number;
  /** See `KeeperOptions`. */
  readonly writeMs: () => number;
}

/** How a webhook does. */
export interface WebhookState {
  /** Whether it listens: it has a certificate, and knows all Services. */
  readonly isServing: boolean;
  /** When the certificate ends that it serves with, since 1970; null without one. */
  readonly untilMs: number | null;
  /** Whether API servers trust that certificate; null before that is known. */
  readonly isTrusted: boolean | null;
  /** Questions since the start, by what became of them. */
  readonly answers: ReadonlyMap<ReviewAnswer['result'], number>;
}

/** Until API servers have heard that this pod ends, they go on to ask it. */
const lingerMs = 3000;

/** kube-apiserver takes no request above 3 MiB (apiserver, MaxRequestBodyBytes); a review has the object once, and a little more. */
const maxBytes = 3_500_000;

/** Answers API servers from `start` to `stop`. */
export class Webhook {
  readonly #options: WebhookOptions;
  readonly #keeper: CertificateKeeper;
  readonly #services = new ServicesByNamespace();
  readonly #informers: readonly Pick<Informer<ApiObject>, 'start' | 'stop'>[];
  readonly #server: PostServer;
  readonly #answers = new Map<ReviewAnswer['result'], number>([
    ['patched', 0],
    ['unchanged', 0],
    ['failed', 0],
  ]);
  #pair: ReadPair | null = null;
  #hasServices = false;
  #isStarted = false;
  #isEnding = false;

  constructor(options: WebhookOptions) {
    this.#options = options;
    const { log, namespace } = options;
    this.#server = this.#createServer();
    this.#keeper = new CertificateKeeper({
      ...options,
      onPair: (pair) => {
        this.#take(pair);
      },
      onStep: (step, pair) => {
        log.stepped(step, pair);
      },
      onProblem: (words) => {
        log.certificateProblem(words);
      },
    });
    this.#informers = [
      this.#follow(servedServices, (changes) => {
        this.#services.change(changes);
        this.#hasServices = true;
        this.#serve();
      }),
      this.#follow(toSecretResource(namespace), (_, objects) => {
        this.#keeper.setSecret([...objects.values()][0] ?? null);
      }),
      this.#follow(webhookConfigurations, (_, objects) => {
        this.#keeper.setConfiguration([...objects.values()][0] ?? null);
      }),
    ];
  }

  /** Begins. Not to be called twice. */
  start(): void {
    for (const informer of this.#informers) informer.start();
    this.#keeper.start();
  }

  /** Ends when API servers have had the time to hear of it. */
  async stop(): Promise<void> {
    this.#isEnding = true;
    this.#server.end();
    await this.#keeper.stop();
    if (this.#server.port !== null) await sleep(this.#options.clock, lingerMs);
    for (const informer of this.#informers) informer.stop();
    await this.#server.stop();
  }

  /** How it does now. */
  get state(): WebhookState {
    return {
      isServing: this.#server.port !== null,
      untilMs: this.#pair?.untilMs ?? null,
      isTrusted: this.#keeper.isTrusted,
      answers: this.#answers,
    };
  }

  /** Where it listens; null while it does not. */
  get port(): number | null {
    return this.#server.port;
  }

  #take(pair: ReadPair): void {
    this.#pair = pair;
    this.#options.log.serves(pair);
    this.#server.setPair(pair);
    this.#serve();
  }

  #serve(): void {
    if (this.#pair === null || !this.#hasServices || this.#isStarted || this.#isEnding) return;
    this.#isStarted = true;
    void this.#server.start();
  }

  #createServer(): PostServer {
    const { clock, log, port } = this.#options;
    const count = (result: ReviewAnswer['result']) => {
      this.#answers.set(result, (this.#answers.get(result) ?? 0) + 1);
    };
    return new PostServer({
      ...{ port, path: webhookPath, maxBytes, clock },
      answer: (text) => {
        const answer = answerReview(text, (namespace) => this.#services.list(namespace));
        if (answer !== null) count(answer.result);
        return answer?.text ?? null;
      },
      onRefused: () => {
        count('failed');
      },
      title: `serve the webhook at port ${port}`,
      remedy: '--webhook-port takes another port',
      onProblem: (problem) => {
        log.cannotListen(problem);
      },
      onRecovered: () => {
        log.listens(port);
      },
    });
  }

  #follow<T extends ApiObject>(
    resource: Resource<T>,
    onChanges: InformerOptions<T>['onChanges'],
  ): Pick<Informer<ApiObject>, 'start' | 'stop'> {
    const { route, clock, random, log } = this.#options;
    return new Informer({
      ...{ resource, route, clock, random, onChanges },
      onUnreadable: (unreadable) => {
        log.unreadable(resource.kind, unreadable);
      },
      onLost: (error) => {
        log.lost(resource.kind, error);
      },
      onFollowed: () => {
        log.followed(resource.kind);
      },
    });
  }
}
