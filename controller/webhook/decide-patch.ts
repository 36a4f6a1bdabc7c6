/**
 * What the webhook changes of a new pod: the same as the policy of cli/generate/manifest/services-injection.ts does in the language of
 * the API server. One table of cases is put to both (test/support/manifest/injected-pods.ts).
 */
import * as z from 'zod/mini';
import { defaultGraceSeconds, mirrorAnnotation, pauseSeconds } from '../../lib/services/injection.ts';
import { gateType } from '../../lib/services/names.ts';
import { type ServedService } from './served-services.ts';

/** Only what decides: everything else of a pod is not even read, so fields of newer versions stay. */
const schema = z.object({
  metadata: z._default(
    z.object({
      labels: z.nullish(z.record(z.string(), z.string())),
      annotations: z.nullish(z.record(z.string(), z.string())),
    }),
    {},
  ),
  spec: z.object({
    restartPolicy: z.nullish(z.string()),
    terminationGracePeriodSeconds: z.nullish(z.number()),
    readinessGates: z.nullish(z.array(z.object({ conditionType: z.string() }))),
    containers: z.array(z.object({ lifecycle: z.nullish(z.object({ preStop: z.nullish(z.unknown()) })) })),
  }),
});

type NewPod = z.output<typeof schema>;

/** One operation of a JSON patch (RFC 6902). */
export interface PatchOperation {
  readonly op: 'add';
  readonly path: string;
  readonly value: unknown;
}

/** Answers the patch of a new pod, beside these Services of its namespace; empty where nothing changes. Null for what is no pod. */
export function decidePatch(pod: unknown, services: Iterable<ServedService>): PatchOperation[] | null {
  const read = schema.safeParse(pod);
  if (!read.success) return null;
  if (!isServer(read.data) || !isSelected(read.data, services)) return [];
  return [...addGate(read.data), ...addPauses(read.data)];
}

/** Pods that end by themselves have no rolling update. */
function isServer({ metadata: { annotations }, spec: { restartPolicy } }: NewPod): boolean {
  const isMirror = Object.hasOwn(annotations ?? {}, mirrorAnnotation);
  return !isMirror && (restartPolicy ?? 'Always') === 'Always';
}

function isSelected({ metadata: { labels } }: NewPod, services: Iterable<ServedService>): boolean {
  for (const { spec } of services) {
    const selector = Object.entries(spec.selector ?? {});
    const hasAll = selector.every(([key, value]) => labels?.[key] === value);
    if (selector.length > 0 && hasAll) return true;
  }
  return false;
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
 * A pod that ends sooner than that has no time for a pause, and the API refuses one that is longer. Before Kubernetes 1.34, an API server can have
 * the pause's feature gate off: it takes the pause out of the pod, and creates the pod (pkg/api/pod, dropPodLifecycleSleepAction).
 */
function addPauses({ spec: { containers, terminationGracePeriodSeconds } }: NewPod): PatchOperation[] {
  if ((terminationGracePeriodSeconds ?? defaultGraceSeconds) <= pauseSeconds) return [];
  const preStop = { sleep: { seconds: pauseSeconds } };
  return containers.flatMap(({ lifecycle }, index): PatchOperation[] => {
    const path = `/spec/containers/${index}/lifecycle`;
    if (lifecycle == null) return [{ op: 'add', path, value: { preStop } }];
    return lifecycle.preStop == null ? [{ op: 'add', path: `${path}/preStop`, value: preStop }] : [];
  });
}
