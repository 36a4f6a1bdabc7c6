import { podServices, type PodService, answerReview } from '../../../../controller/webhook/webhook.ts';
import {
  injectingServices,
  type InjectedPod,
  toPod,
  injectionCases,
  takenCases,
  readInjected,
} from '../../../support/manifest/injected-pods.ts';
import { expect, test } from '@jest/globals';

/** As the API lists and keeps them. */
function readServices(specs: Readonly<Record<string, object>>, finalizers: readonly string[] = []) {
  return Object.entries(specs)
    .map(([name, spec]) => {
      const metadata = { name, namespace: 'gates', resourceVersion: '7', finalizers };
      return podServices.schema.parse({ metadata, spec: { type: 'ClusterIP', ...spec } });
    })
    .filter((service) => podServices.isKept?.(service) === true);
}

const pods = { group: '', version: 'v1', resource: 'pods' };

function ask(
  request: object,
  services: (namespace: string) => Iterable<PodService> = (namespace) =>
    namespace === 'gates' ? readServices(injectingServices) : [],
) {
  const review = { apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview' };
  const defaults = { uid: 'u1', operation: 'CREATE', namespace: 'gates', resource: pods };
  const answer = answerReview(JSON.stringify({ ...review, request: { ...defaults, ...request } }), services);
  return answer === null ? null : { ...answer, review: JSON.parse(answer.text) as Review };
}

interface Review {
  readonly response: { readonly uid: string; readonly allowed: boolean; readonly patch?: string };
}

interface Operation {
  readonly path: string;
  readonly value: unknown;
}

/** Applies operations that add. */
function applyPatch(object: object, { response: { patch } }: Review): object {
  const copy = structuredClone(object);
  const text = Buffer.from(patch ?? '', 'base64').toString();
  for (const { path, value } of patch === undefined ? [] : (JSON.parse(text) as Operation[])) {
    const keys = path.split('/').slice(1);
    const last = keys.pop() ?? '';
    const parent = keys.reduce<unknown>((at, key) => (at as Record<string, unknown>)[key], copy);
    if (Array.isArray(parent) && last === '-') parent.push(value);
    else (parent as Record<string, unknown>)[last] = value;
  }
  return copy;
}

function admit(pod: InjectedPod) {
  const object = toPod(pod);
  const answer = ask({ object, namespace: pod.namespace ?? 'gates' });
  if (answer === null) throw new Error('no answer');
  expect(answer.review.response).toMatchObject({ uid: 'u1', allowed: true });
  const admitted = applyPatch(object, answer.review) as typeof object;
  expect(answer.result).toBe(JSON.stringify(admitted) === JSON.stringify(object) ? 'unchanged' : 'patched');
  return admitted;
}

test.each(injectionCases)('the webhook and the policy agree on %s', (_, pod, injected) => {
  expect(readInjected(admit(pod).spec)).toEqual(injected);
});

test('what the webhook has added, it adds no second time: other webhooks may have it asked again', () => {
  const { spec } = admit({});
  expect(ask({ object: { ...toPod({}), spec } })?.result).toBe('unchanged');
});

test.each(takenCases)('a Service without a class and with %j has our pods: %s', (finalizers, isTaken) => {
  const specs = { classless: { type: 'LoadBalancer', selector: { app: 'web' } } };
  const answer = ask({ object: toPod({}) }, () => readServices(specs, finalizers));
  const patch = Buffer.from(answer?.review.response.patch ?? '', 'base64').toString();
  expect(patch.includes('readinessGates')).toBe(isTaken);
});

test('fields that no version of vipnat knows stay, as the patch only adds', () => {
  const spec = { containers: [{ name: 'a', image: 'a', newer: { field: [1] } }], newest: true };
  expect(admit({ spec }).spec).toMatchObject({ newest: true, containers: [{ newer: { field: [1] } }] });
});

test.each<[string, object, string]>([
  ['it cannot be read', { object: { metadata: {}, spec: { containers: 'none' } } }, 'failed'],
  ['there is none', { object: null }, 'failed'],
  ["it is of a node's own files", { object: toPod({ annotations: mirror() }) }, 'unchanged'],
  ['its labels are those of any object', { object: toPod({ labels: { constructor: 'x' } }) }, 'unchanged'],
  ['it changes', { object: toPod({}), operation: 'UPDATE' }, 'unchanged'],
  ['it is bound', { object: toPod({}), subResource: 'binding' }, 'unchanged'],
  ['it is something else', { object: toPod({}), resource: { ...pods, resource: 'jobs' } }, 'unchanged'],
])('a pod stays as it is where %s', (_, request, result) => {
  const answer = ask(request);
  expect(answer?.result).toBe(result);
  expect(answer?.review.response).toEqual({ uid: 'u1', allowed: true });
});

function mirror(): Record<string, string> {
  return { 'kubernetes.io/config.mirror': 'x' };
}

test.each(['', 'null', '{}', '{"kind":"AdmissionReview"}', '[', JSON.stringify({ request: { uid: 7 } })])(
  'what is no question of an API server gets no answer: %s',
  (text) => {
    expect(answerReview(text, () => [])).toBeNull();
  },
);
