import * as z from 'zod/mini';
import {
  mirrorAnnotation,
  defaultGraceSeconds,
  isSelected,
  pauseSeconds,
  webhookPath,
} from '../../lib/api/endpoints.ts';
import { apiGroup, deviceFinalizerPrefix, finalizer, gateType } from '../../lib/api/vipnat.ts';
import { readJson, name, objectVersion, type Resource, type ApiObject } from '../../lib/kubernetes/client.ts';
import { services } from '../../lib/api/service.ts';
import { Informer, type InformerOptions } from '../../lib/kubernetes/informer.ts';
import type { ApiRoute } from '../../lib/kubernetes/route.ts';
import { type Random, sleep } from '../../lib/clock.ts';
import {
  CertificateKeeper,
  type KeeperOptions,
  type ReadPair,
  toSecretResource,
  webhookConfigurations,
} from './certificate.ts';
import { PostServer } from '../../lib/http/pages.ts';
import type { WebhookLog } from '../report/log.ts';

/**
 * What the webhook changes of a new pod: the same as the policy of cli/manifest/rights.ts does in the language of
 * the API server. One table of cases is put to both (test/support/manifest/injected-pods.ts).
 */

const preStopSchema = z.object({ sleep: z.nullish(z.object({ seconds: z.number() })) });

/** Only what decides: everything else of a pod is not even read, so fields of newer versions stay. */
const podSchema = z.object({
  metadata: z._default(
    z.object({
      labels: z.nullish(z.record(z.string(), z.string())),
      annotations: z.nullish(z.record(z.string(), z.string())),
    }),
    {},
  ),
  spec: z.object({
    restartPolicy: z.nullish(z.string()),
    // More than JSON's numbers can say is not read: a patch with another number would keep the pod from being made.
    terminationGracePeriodSeconds: z.nullish(z.int()),
    readinessGates: z.nullish(z.array(z.object({ conditionType: z.string() }))),
    containers: z.array(z.object({ lifecycle: z.nullish(z.object({ preStop: z.nullish(preStopSchema) })) })),
  }),
});

type NewPod = z.output<typeof podSchema>;

/** One operation of a JSON patch (RFC 6902). */
interface PatchOperation {
  readonly op: 'add';
  readonly path: string;
  readonly value: unknown;
}

/** Answers the patch of a new pod, given these Services of its namespace; empty where nothing changes. Null for what is no pod. */
function decidePatch(object: unknown, services: Iterable<PodService>): PatchOperation[] | null {
  const read = podSchema.safeParse(object);
  if (!read.success) return null;
  const { data: pod } = read;
  const selecting = isServer(pod)
    ? [...services].filter(({ spec }) => isSelected({ matchLabels: spec.selector }, pod.metadata.labels))
    : [];
  if (selecting.length === 0) return [];
  // A pod of other Services would wait for the controller alone.
  return [...(selecting.some(isServed) ? addGate(pod) : []), ...addPauses(pod)];
}

/** Pods that end by themselves have no rolling update. */
function isServer({ metadata: { annotations }, spec: { restartPolicy } }: NewPod): boolean {
  const isMirror = Object.hasOwn(annotations ?? {}, mirrorAnnotation);
  return !isMirror && (restartPolicy ?? 'Always') === 'Always';
}

/** Whether vipnat or a device serves it, or will: by its class, or because a controller has taken it. */
function isServed({ metadata: { finalizers }, spec }: PodService): boolean {
  if (spec.type !== 'LoadBalancer') return false;
  return (
    spec.loadBalancerClass?.startsWith(`${apiGroup}/`) === true ||
    finalizers?.some((name) => name === finalizer || name.startsWith(`${deviceFinalizerPrefix}/`)) === true
  );
}

function addGate({ spec: { readinessGates } }: NewPod): PatchOperation[] {
  const gates = readinessGates ?? [];
  if (gates.some(({ conditionType }) => conditionType === gateType)) return [];
  const gate = { conditionType: gateType };
  return gates.length === 0
    ? [{ op: 'add', path: '/spec/readinessGates', value: [gate] }]
    : [{ op: 'add', path: '/spec/readinessGates/-', value: gate }];
}

/**
 * The pause comes in addition to the time that the pod has to end, once: this may be asked again for a container that another webhook added. A pod
 * with no such time has no pause. Before Kubernetes 1.34, an API server can have the pause's feature gate off: it takes the pause
 * out of the pod, and creates the pod (pkg/api/pod, dropPodLifecycleSleepAction).
 */
function addPauses({ spec: { containers, terminationGracePeriodSeconds } }: NewPod): PatchOperation[] {
  const graceSeconds = terminationGracePeriodSeconds ?? defaultGraceSeconds;
  if (graceSeconds <= 0) return [];
  const preStop = { sleep: { seconds: pauseSeconds } };
  const pauses = containers.flatMap(({ lifecycle }, index): PatchOperation[] => {
    const path = `/spec/containers/${index}/lifecycle`;
    if (lifecycle == null) return [{ op: 'add', path, value: { preStop } }];
    return lifecycle.preStop == null ? [{ op: 'add', path: `${path}/preStop`, value: preStop }] : [];
  });
  const hasPause = containers.some(({ lifecycle }) => lifecycle?.preStop?.sleep?.seconds === pauseSeconds);
  if (pauses.length === 0 || hasPause) return pauses;
  const path = '/spec/terminationGracePeriodSeconds';
  return [...pauses, { op: 'add', path, value: graceSeconds + pauseSeconds }];
}

const kind = { apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview' } as const;

/** Source: k8s.io/api, admission/v1. The group of pods is empty. */
const reviewSchema = z.object({
  apiVersion: z.literal(kind.apiVersion),
  kind: z.literal(kind.kind),
  request: z.object({
    uid: z.string().check(z.minLength(1), z.maxLength(256)),
    operation: z.string(),
    namespace: z.nullish(z.string()),
    resource: z.object({ group: z._default(z.string(), ''), version: z.string(), resource: z.string() }),
    subResource: z.nullish(z.string()),
    object: z.nullish(z.unknown()),
  }),
});

type Request = z.output<typeof reviewSchema>['request'];

/** What became of a question. Every one that can be read is allowed. */
interface ReviewAnswer {
  /** `failed`: the pod could not be read, and stays as it is. */
  readonly result: 'patched' | 'unchanged' | 'failed';
  /** An AdmissionReview, as JSON. */
  readonly text: string;
}

/** Answers a question of an API server, with the Services of a namespace. Null for what is no such question. */
export function answerReview(
  text: string,
  listServices: (namespace: string) => Iterable<PodService>,
): ReviewAnswer | null {
  const read = reviewSchema.safeParse(readJson(text));
  if (!read.success) return null;
  const { request } = read.data;
  const patch = isNewPod(request) ? decidePatch(request.object, listServices(request.namespace ?? '')) : [];
  if (patch === null || patch.length === 0)
    return { result: patch === null ? 'failed' : 'unchanged', text: toReview(request.uid) };
  const more = { patchType: 'JSONPatch', patch: Buffer.from(JSON.stringify(patch)).toString('base64') };
  return { result: 'patched', text: toReview(request.uid, more) };
}

/** The configuration asks for these alone; others may be asked for by a configuration that somebody has changed. */
function isNewPod({ operation, resource: { group, resource }, subResource }: Request): boolean {
  return operation === 'CREATE' && group === '' && resource === 'pods' && (subResource ?? '') === '';
}

function toReview(uid: string, more: object = {}): string {
  return JSON.stringify({ ...kind, response: { uid, allowed: true, ...more } });
}

const serviceSchema = z.object({
  metadata: z.object({
    name,
    namespace: name,
    resourceVersion: objectVersion,
    finalizers: z.nullish(z.array(z.string())),
  }),
  spec: z.object({
    type: z.nullish(z.string()),
    loadBalancerClass: z.nullish(z.string()),
    selector: z.nullish(z.record(z.string(), z.string())),
  }),
});

/** As much of a Service as decides about new pods: some hundred bytes. */
export type PodService = z.output<typeof serviceSchema>;

/** The Services of all namespaces that select pods. Each controller follows these, whether it leads or not. */
export const podServices: Resource<PodService> = {
  ...{ kind: services.kind, path: services.path, selector: services.selector, limits: services.limits },
  schema: serviceSchema,
  isKept: ({ spec: { type, selector } }) => type !== 'ExternalName' && Object.keys(selector ?? {}).length > 0,
};

/**
 * The webhook that gives new pods of Services a readiness gate and a pause before they end, where the API has no policy for it.
 *
 * Goal: each controller answers, whether it leads or not, so that the end of one does no harm.
 * Tension: a pod must not wait for an answer, and anybody can connect.
 * Compromise: what decides is in memory, of all Services that select pods. Nothing is asked while a pod waits.
 */

/** The dependencies of the webhook. */
export interface WebhookOptions extends Pick<KeeperOptions, 'client' | 'clock' | 'namespace' | 'writeMs'> {
  readonly route: ApiRoute;
  readonly random: Random;
  readonly log: WebhookLog;
  /** At all addresses of this host. 0 takes any that is free. */
  readonly port: number;
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

/** Until API servers have received that this pod ends, they continue to ask it. */
const lingerMs = 3000;

/** kube-apiserver takes no request above 3 MiB (apiserver, MaxRequestBodyBytes); a review has the object once, and a little more. */
const maxBytes = 3_500_000;

/** Answers API servers from `start` to `stop`. */
export class Webhook {
  readonly #options: WebhookOptions;
  readonly #keeper: CertificateKeeper;
  readonly #informers: readonly Pick<Informer<ApiObject>, 'start' | 'stop'>[];
  readonly #server: PostServer;
  readonly #answers = new Map<ReviewAnswer['result'], number>(
    (['patched', 'unchanged', 'failed'] as const).map((result) => [result, 0]),
  );
  #pair: ReadPair | null = null;
  /** Null until all are known. */
  #services: ReadonlyMap<string, PodService> | null = null;
  #isStarted = false;
  #isEnding = false;

  constructor(options: WebhookOptions) {
    this.#options = options;
    const { log, namespace } = options;
    this.#server = this.#createServer();
    this.#keeper = new CertificateKeeper({
      ...options,
      ...{ onStep: log.onStep, onProblem: log.onProblem },
      onPair: (pair) => {
        this.#pair = pair;
        log.onServes(pair);
        this.#server.setPair(pair);
        this.#serve();
      },
    });
    this.#informers = [
      this.#follow(podServices, (_, objects) => {
        this.#services = objects;
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

  /** Ends when API servers have had the time to learn of it. */
  async stop(): Promise<void> {
    this.#isEnding = true;
    this.#server.end();
    await this.#keeper.stop();
    if (this.#server.port !== null) await sleep(this.#options.clock, lingerMs);
    for (const informer of this.#informers) informer.stop();
    await this.#server.stop();
  }

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

  #serve(): void {
    if (this.#pair === null || this.#services === null || this.#isStarted || this.#isEnding) return;
    this.#isStarted = true;
    void this.#server.start();
  }

  #createServer(): PostServer {
    const { clock, log, port } = this.#options;
    const count = (result: ReviewAnswer['result']) => {
      this.#answers.set(result, (this.#answers.get(result) ?? 0) + 1);
    };
    // Of 100,000 Services, this took 5 to 56 ms on a busy machine.
    const listServices = (namespace: string) =>
      [...(this.#services?.values() ?? [])].filter(({ metadata }) => metadata.namespace === namespace);
    return new PostServer({
      ...{ port, path: webhookPath, maxBytes, clock },
      answer: (text) => {
        const answer = answerReview(text, listServices);
        if (answer !== null) count(answer.result);
        return answer?.text ?? null;
      },
      onRefused: () => {
        count('failed');
      },
      title: `serve the webhook at port ${port}`,
      remedy: '--webhook-port takes another port',
      onProblem: log.onCannotListen,
      onRecovered: () => {
        log.onListens(port);
      },
    });
  }

  #follow<T extends ApiObject>(
    resource: Resource<T>,
    onChanges: InformerOptions<T>['onChanges'],
  ): Pick<Informer<ApiObject>, 'start' | 'stop'> {
    const { route, clock, random, log } = this.#options;
    const { kind } = resource;
    return new Informer({
      ...{ resource, route, clock, random, onChanges },
      onUnreadable: log.onUnreadable.bind(null, kind),
      onLost: log.onLost.bind(null, kind),
      onFollowed: log.onFollowed.bind(null, kind),
    });
  }
}
