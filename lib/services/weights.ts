/** How many connections an endpoint gets beside the others of its port: an annotation of its pod, and of the early EndpointSlice that has it. */
import * as z from 'zod/mini';
import { readJson } from '../kubernetes/read-json.ts';
import { podAnnotations, weightsAnnotation } from './names.ts';

/** The highest weight. */
export const maxWeight = 256;

/** What an endpoint has where nobody says. */
export const usualWeight = 1;

type Annotations = Readonly<Record<string, string | null | undefined>> | null | undefined;

/** What a pod's annotation asks for: 0 to 256. Null where it has none; the usual weight where it is not such a number. */
export function readPodWeight(annotations: Annotations): number | null {
  const text = annotations?.[podAnnotations.weight] ?? null;
  if (text === null) return null;
  return /^\d{1,3}$/.test(text.trim()) && Number(text) <= maxWeight ? Number(text) : usualWeight;
}

const weights = z.record(z.string(), z.number().check(z.int(), z.gte(0), z.lte(maxWeight)));

/** Addresses of endpoints to their weights, as an EndpointSlice says; those that are not there have the usual weight. None where it cannot be read. */
export function readWeights(annotations: Annotations): ReadonlyMap<string, number> {
  const parsed = weights.safeParse(readJson(annotations?.[weightsAnnotation] ?? '{}'));
  return new Map(Object.entries(parsed.data ?? {}));
}

/** The annotation that says it; null where all have the usual weight. */
export function formatWeights(addressToWeight: ReadonlyMap<string, number>): string | null {
  const unusual = [...addressToWeight].filter(([, weight]) => weight !== usualWeight);
  const sorted = unusual.sort(([one], [other]) => (one < other ? -1 : 1));
  return sorted.length === 0 ? null : JSON.stringify(Object.fromEntries(sorted));
}
