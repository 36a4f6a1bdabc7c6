/** The two kinds of objects that are asked for, and how answers about them are read. Nothing of an answer is trusted. */
import * as z from 'zod/mini';
import { NonsenseError, quoteForeign, VersionGoneError } from './errors.ts';

/** DNS labels with dots, as Kubernetes has names. */
const name = z.string().check(z.regex(/^[a-z0-9][a-z0-9.-]{0,252}$/));

/** Opaque to clients; a number in practice. */
const version = z.string().check(z.regex(/^[\w-]{1,64}$/));

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

/** An object of either kind. */
export interface ApiObject {
  readonly metadata: { readonly name: string; readonly resourceVersion: string };
}

/** What identifies an object in its kind: Kubernetes' NamespacedName. */
export interface NamespacedName {
  readonly namespace: string;
  readonly name: string;
}

/** A kind of objects, and which of them are asked for. */
export interface Resource<T extends ApiObject> {
  readonly kind: string;
  readonly path: string;
  /** As it stands in a query. */
  readonly selector: string;
  readonly schema: z.ZodMiniType<T>;
}

/** The EndpointSlice of a name. Asked for by its name, so that a role can be limited to it. */
export function toSliceResource({ namespace, name }: NamespacedName): Resource<EndpointSlice> {
  return {
    kind: 'EndpointSlice',
    path: `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices`,
    selector: selectName(name),
    schema: slice,
  };
}

/** The Service of a name. Asked for by its name, so that a role can be limited to it. */
export function toServiceResource({ namespace, name }: NamespacedName): Resource<Service> {
  return {
    kind: 'Service',
    path: `/api/v1/namespaces/${namespace}/services`,
    selector: selectName(name),
    schema: service,
  };
}

function selectName(name: string): string {
  return `fieldSelector=${encodeURIComponent(`metadata.name=${name}`)}`;
}

/** kube-apiserver takes no object above 1.5 MiB, and those of interest have 1 KiB. */
export const maxAnswerLength = 2_000_000;

/** One is asked for: an answer with many is none of apiservers. */
const maxObjects = 100;

/** All objects of a kind, by name, as of a version. */
export interface Listing<T> {
  readonly version: string;
  readonly objects: ReadonlyMap<string, T>;
}

/**
 * Reads the answer to a list.
 * @throws NonsenseError
 */
export function readListing<T extends ApiObject>(resource: Resource<T>, text: string): Listing<T> {
  const list = z.object({
    kind: z.literal(`${resource.kind}List`),
    metadata: z.object({ resourceVersion: version }),
    items: z.nullish(z.array(resource.schema).check(z.maxLength(maxObjects))),
  });
  const parsed = list.safeParse(readJson(text));
  if (!parsed.success) throw new NonsenseError(`the answer is no ${resource.kind}List`);
  const { items, metadata } = parsed.data;
  return {
    version: metadata.resourceVersion,
    objects: new Map((items ?? []).map((item) => [item.metadata.name, item])),
  };
}

const event = z.object({
  type: z.enum(['ADDED', 'MODIFIED', 'DELETED', 'BOOKMARK', 'ERROR']),
  object: z.unknown(),
});

const status = z.object({ code: z.number(), message: z.nullish(z.string()) });

/**
 * Applies one line of a watch to what was known.
 * @throws NonsenseError; VersionGoneError when the version is too old.
 */
export function applyEvent<T extends ApiObject>(
  resource: Resource<T>,
  before: Listing<T>,
  line: string,
): Listing<T> {
  const parsed = event.safeParse(readJson(line));
  if (!parsed.success) throw new NonsenseError('it sends what is no event');
  const { type, object } = parsed.data;
  if (type === 'ERROR') throw toError(object);
  if (type === 'BOOKMARK') return { ...before, version: readVersion(object) };
  const changed = resource.schema.safeParse(object);
  if (!changed.success) throw new NonsenseError(`it sends what is no ${resource.kind}`);
  const { name, resourceVersion } = changed.data.metadata;
  const objects = new Map(before.objects);
  if (type === 'DELETED') objects.delete(name);
  else objects.set(name, changed.data);
  if (objects.size > maxObjects)
    throw new NonsenseError(`it sends more than ${maxObjects} ${resource.kind}s`);
  return { version: resourceVersion, objects };
}

function toError(object: unknown): Error {
  const parsed = status.safeParse(object);
  if (!parsed.success) return new NonsenseError('it ends with an error that says nothing');
  const { code, message } = parsed.data;
  if (code === 410) return new VersionGoneError();
  return new NonsenseError(`it ends with error ${code}: ${quoteForeign(message ?? '')}`);
}

/** A bookmark has nothing but its version. */
function readVersion(object: unknown): string {
  const bookmark = z.object({ metadata: z.object({ resourceVersion: version }) }).safeParse(object);
  if (!bookmark.success) throw new NonsenseError('it sends a bookmark without a version');
  return bookmark.data.metadata.resourceVersion;
}

function readJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
