import * as z from 'zod/mini';
import { readJson } from '../../lib/kubernetes/read-json.ts';
import { decidePatch } from './decide-patch.ts';
import { type ServedService } from './served-services.ts';

const kind = { apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview' } as const;

/** Source: k8s.io/api, admission/v1. The group of pods is empty. */
const schema = z.object({
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

type Request = z.output<typeof schema>['request'];

/** What became of a question. Every one that can be read is allowed. */
export interface ReviewAnswer {
  /** `failed`: the pod could not be read, and stays as it is. */
  readonly result: 'patched' | 'unchanged' | 'failed';
  /** An AdmissionReview, as JSON. */
  readonly text: string;
}

/** Answers a question of an API server, with the Services of a namespace. Null for what is no such question. */
export function answerReview(
  text: string,
  listServices: (namespace: string) => Iterable<ServedService>,
): ReviewAnswer | null {
  const read = schema.safeParse(readJson(text));
  if (!read.success) return null;
  const { request } = read.data;
  if (!isNewPod(request)) return { result: 'unchanged', text: toReview(request.uid) };
  const patch = decidePatch(request.object, listServices(request.namespace ?? ''));
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
