/** The kinds of objects that are asked for. Nothing of an answer is trusted: each kind has the schema of what is used of it. */
import * as z from 'zod/mini';
import { type ApiObject, name, type NamespacedName, version } from './api-object.ts';

const metadata = z.object({ name, resourceVersion: version });

const slice = z.object({
  metadata,
  addressType: z.string(),
  endpoints: z.nullish(
    z.array(
      z.object({
        addresses: z.array(z.string()),
        conditions: z.nullish(z.object({ ready: z.nullish(z.boolean()) })),
      }),
    ),
  ),
  ports: z.nullish(
    z.array(
      z.object({ name: z.nullish(z.string()), port: z.nullish(z.number()), protocol: z.nullish(z.string()) }),
    ),
  ),
});

const service = z.object({
  metadata,
  spec: z.object({
    clusterIP: z.nullish(z.string()),
    clusterIPs: z.nullish(z.array(z.string())),
    sessionAffinity: z.nullish(z.string()),
    sessionAffinityConfig: z.nullish(
      z.object({ clientIP: z.nullish(z.object({ timeoutSeconds: z.nullish(z.number()) })) }),
    ),
  }),
});

/** An EndpointSlice of discovery.k8s.io/v1, as far as it is of use. */
export type EndpointSlice = z.output<typeof slice>;

/** A Service of v1, as far as it is of use. */
export type Service = z.output<typeof service>;

/** A kind of objects, and which of them are asked for. */
export interface Resource<T extends ApiObject> {
  readonly kind: string;
  readonly path: string;
  /** As it stands in a query; empty for all of the path. */
  readonly selector: string;
  readonly schema: z.ZodMiniType<T>;
  readonly limits: AnswerLimits;
  /** Which of them are kept, where a selector cannot say it: the others take no memory. All unless given. */
  readonly isKept?: (object: T) => boolean;
  /** One of them that cannot be read any more is gone. Unless given, what was last known of it counts. */
  readonly dropsUnreadable?: true;
  /** What a person has to do where the credentials do not allow it, as a phrase. */
  readonly remedy?: string;
  /** An older API may not have this kind (404): then there is none of it. */
  readonly mayBeMissing?: true;
  /** What a person has to do where the API does not know the kind, as a phrase. */
  readonly absence?: string;
}

/** How much of a kind is taken: whoever answers may not be who was asked. */
export interface AnswerLimits {
  /** The objects that there may be. */
  readonly objects: number;
  /** The characters of one page of a list, and of one event. */
  readonly characters: number;
  /** The objects that one answer is to have, the rest is asked for afterwards; null for all in one. */
  readonly page: number | null;
}

/**
 * Of a kind of which one object is asked for: an answer with many is none of that. kube-apiserver takes no object above 1.5 MiB,
 * and those of interest have 1 KiB.
 */
const oneObject: AnswerLimits = { objects: 100, characters: 2_000_000, page: null };

/** The role that `vipnat manifest daemonset` prints. */
const remedy =
  'allow it to get, list and watch services and endpointslices.discovery.k8s.io in the namespace default';

/** The EndpointSlice of a name. Asked for by its name, so that a role can be limited to it. */
export function toSliceResource({ namespace, name }: NamespacedName): Resource<EndpointSlice> {
  return {
    kind: 'EndpointSlice',
    path: `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices`,
    selector: selectName(name),
    schema: slice,
    limits: oneObject,
    remedy,
  };
}

/** The Service of a name. Asked for by its name, so that a role can be limited to it. */
export function toServiceResource({ namespace, name }: NamespacedName): Resource<Service> {
  return {
    kind: 'Service',
    path: `/api/v1/namespaces/${namespace}/services`,
    selector: selectName(name),
    schema: service,
    limits: oneObject,
    remedy,
  };
}

function selectName(name: string): string {
  return `fieldSelector=${encodeURIComponent(`metadata.name=${name}`)}`;
}

/** A path with its query; parts that are empty are left out. */
export function joinQuery(path: string, parts: readonly string[]): string {
  const query = parts.filter((part) => part !== '').join('&');
  return query === '' ? path : `${path}?${query}`;
}
