import * as z from 'zod/mini';
import { name, version } from '../../lib/kubernetes/api-object.ts';
import { type Change } from '../../lib/kubernetes/object-store.ts';
import { type Resource } from '../../lib/kubernetes/resources.ts';
import { finalizer, loadBalancerClass } from '../../lib/services/names.ts';
import { loadBalancerServices } from '../../lib/services/services.ts';

const schema = z.object({
  metadata: z.object({
    name,
    namespace: name,
    resourceVersion: version,
    finalizers: z.nullish(z.array(z.string())),
  }),
  spec: z.object({
    loadBalancerClass: z.nullish(z.string()),
    selector: z.nullish(z.record(z.string(), z.string())),
  }),
});

/** As much of a Service as decides about new pods: some hundred bytes. */
export type ServedService = z.output<typeof schema>;

/**
 * The Services of all namespaces that vipnat serves, or will: by their class, or because a controller has taken them. Each controller
 * follows these, whether it leads or not, so no other one is kept.
 */
export const servedServices: Resource<ServedService> = {
  ...{ kind: loadBalancerServices.kind, path: loadBalancerServices.path },
  ...{ selector: loadBalancerServices.selector, limits: loadBalancerServices.limits },
  schema,
  isKept: ({ metadata: { finalizers }, spec }) =>
    spec.loadBalancerClass === loadBalancerClass || finalizers?.includes(finalizer) === true,
};

/** Services by their namespaces. */
export class ServicesByNamespace {
  readonly #namespaceToServices = new Map<string, Map<string, ServedService>>();

  /** Those of a namespace. */
  list(namespace: string): Iterable<ServedService> {
    return this.#namespaceToServices.get(namespace)?.values() ?? [];
  }

  /** Takes what an informer tells. */
  change(changes: readonly Change<ServedService>[]): void {
    for (const { key, before, after } of changes) {
      const namespace = (after ?? before)?.metadata.namespace ?? '';
      const services = this.#namespaceToServices.get(namespace) ?? new Map<string, ServedService>();
      if (after === null) services.delete(key);
      else services.set(key, after);
      if (services.size === 0) this.#namespaceToServices.delete(namespace);
      else this.#namespaceToServices.set(namespace, services);
    }
  }
}
