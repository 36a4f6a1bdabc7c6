import * as z from 'zod/mini';
import { name, version } from '../kubernetes/api-object.ts';
import {
  gateTypesAnnotation,
  podAnnotations,
  poolAnnotations,
  reportAnnotations,
  serviceAnnotations,
  weightsAnnotation,
} from './names.ts';
import { strict } from './strict.ts';

const known = new Set<string>([
  ...Object.values(serviceAnnotations).flat(),
  ...[podAnnotations, poolAnnotations, reportAnnotations].flatMap((names) => Object.values<string>(names)),
  ...[weightsAnnotation, gateTypesAnnotation],
]);

/** Others may be long: whoever may write an object can give it 256 KiB of them. */
function keepKnown(annotations: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(annotations).filter(([each]) => known.has(each)));
}

/** What is read of the metadata of objects that belong to no namespace. */
export const metadata = z.object({
  name,
  uid: z.string(),
  resourceVersion: version,
  generation: z._default(z.number(), 0),
  creationTimestamp: z.nullish(z.string()),
  deletionTimestamp: z.nullish(z.string()),
  labels: z.nullish(z.record(z.string(), z.string())),
  /** Those that `names.ts` has. */
  annotations: z.nullish(z.pipe(z.record(z.string(), z.string()), z.transform(keepKnown))),
  finalizers: z.nullish(z.array(z.string())),
});

/** Of meta/v1. `observedGeneration` is the generation of the object that the condition is about. */
export const condition = z.object({
  type: z.string().register(strict, { maxLength: 316 }),
  /** Another program may write anything. */
  status: z.string().register(strict, { enum: ['True', 'False', 'Unknown'] }),
  reason: z._default(z.string(), '').register(strict, { maxLength: 1024 }),
  message: z._default(z.string(), '').register(strict, { maxLength: 32_768 }),
  lastTransitionTime: z.nullish(z.string()).register(strict, { format: 'date-time' }),
  observedGeneration: z.nullish(z.number()).register(strict, { format: 'int64' }),
});

/** One condition of an object's status. */
export type Condition = z.output<typeof condition>;

/** Those of an object's status, as its schema has them. */
export type Conditions = z.ZodMiniOptional<z.ZodMiniNullable<z.ZodMiniArray<typeof condition>>>;

/** One of each type, in the status of a kind of ours. The description names the types. */
export function describeConditions(description: string): Conditions {
  return z.nullish(z.array(condition)).register(strict, {
    description,
    'x-kubernetes-list-type': 'map',
    'x-kubernetes-list-map-keys': ['type'],
  });
}
