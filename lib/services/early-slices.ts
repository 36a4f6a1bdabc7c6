/**
 * Early EndpointSlices: endpoints that balancers are to know before Kubernetes' own slices call them ready. The controller writes
 * them, of pods that wait for their gate or have a weight. `ready` means that nothing but a gate of vipnat is missing.
 */
import * as z from 'zod/mini';
import { name, type NamespacedName } from '../kubernetes/api-object.ts';
import { type Resource } from '../kubernetes/resources.ts';
import { metadata } from './metadata.ts';
import { apiGroup, earlyServiceLabel, managedByLabel } from './names.ts';
import { endpoint, endpointSlices, slice } from './services.ts';

const reference = z.object({
  kind: z.nullish(z.string()),
  name: z.nullish(z.string()),
  uid: z.nullish(z.string()),
});

const earlySlice = z.extend(slice, {
  metadata: z.extend(metadata, { namespace: name, ownerReferences: z.nullish(z.array(reference)) }),
  /** `targetRef` is the pod. */
  endpoints: z.nullish(z.array(z.extend(endpoint, { targetRef: z.nullish(reference) }))),
});

/** An EndpointSlice that the controller wrote. Its annotation `vipnat.io/weights` is read by `readWeights`. */
export type EarlySlice = z.output<typeof earlySlice>;

const toSelector = (service: string) =>
  `labelSelector=${encodeURIComponent(`${managedByLabel}=${apiGroup},${service}`)}`;

/** All of them. */
export const earlySlices: Resource<EarlySlice> = {
  kind: endpointSlices.kind,
  path: endpointSlices.path,
  limits: endpointSlices.limits,
  selector: toSelector(earlyServiceLabel),
  schema: earlySlice,
};

/** Those of the Service of a name. */
export function selectEarlySlicesOf({ namespace, name: own }: NamespacedName): Resource<EarlySlice> {
  return {
    ...earlySlices,
    path: `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices`,
    selector: toSelector(`${earlyServiceLabel}=${own}`),
  };
}

/** The key of its Service, `NAMESPACE/NAME`. */
export function nameEarlyOwner({ metadata: { namespace, labels } }: Pick<EarlySlice, 'metadata'>): string {
  return `${namespace}/${labels?.[earlyServiceLabel] ?? ''}`;
}
