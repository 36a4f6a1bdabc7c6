/**
 * The finalizers of Services. A Service without a class also gets the one that Kubernetes names for every load balancer, so that
 * tools which ask for it find it. It stands behind vipnat's: one that stands before is of another load balancer, which has not
 * cleaned up yet, and stays.
 */
import { cleanupFinalizer, finalizer } from '../../lib/services/names.ts';
import { type Service } from '../../lib/services/services.ts';

/** The finalizers of a Service that vipnat is about to serve; null when it has vipnat's. */
export function addFinalizers({ metadata, spec }: Service): readonly string[] | null {
  const known = metadata.finalizers ?? [];
  if (known.includes(finalizer)) return null;
  const hasClass = typeof spec.loadBalancerClass === 'string';
  return [...known, finalizer, ...(hasClass || known.includes(cleanupFinalizer) ? [] : [cleanupFinalizer])];
}

/** The finalizers of a Service that vipnat is done with; null when it does not have vipnat's. */
export function dropFinalizers({ metadata }: Service): readonly string[] | null {
  const known = metadata.finalizers ?? [];
  const at = known.indexOf(finalizer);
  if (at < 0) return null;
  return [...known.slice(0, at), ...known.slice(at + 1).filter((each) => each !== cleanupFinalizer)];
}
