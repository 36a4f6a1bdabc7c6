import * as z from 'zod/mini';

/** Of the metadata: DNS labels with dots, as Kubernetes has the names of objects. */
export const name = z.string().check(z.regex(/^[a-z0-9][a-z0-9.-]{0,252}$/));

/** Of the metadata: opaque to clients, a number in practice. */
export const version = z.string().check(z.regex(/^[\w-]{1,64}$/));

/** What every object of the API has. The namespace is there where objects of several are asked for. */
export interface ApiObject {
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly resourceVersion: string;
  };
}

/** What identifies an object in its kind: Kubernetes' NamespacedName. */
export interface NamespacedName {
  readonly namespace: string;
  readonly name: string;
}

/** An object's key in its kind: `NAMESPACE/NAME`, or the name alone where the namespace is not read. */
export function toKey({ metadata: { namespace, name: own } }: ApiObject): string {
  return namespace === undefined ? own : `${namespace}/${own}`;
}
