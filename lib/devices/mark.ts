/** How an object of ours on a device is told from those of others, and of other clusters: by its name. */
import { type BalancerId } from './driver.ts';

/** The longest mark: names of clusters have 40 characters at most, those of namespaces and Services 63, uids 36. */
export const maxMarkLength = 212;

/** `vipnat_CLUSTER_NAMESPACE_NAME_UID`. Names in Kubernetes have no underscores. */
export function formatMark({ cluster, namespace, name, uid }: BalancerId): string {
  return ['vipnat', cluster, namespace, name, uid].join('_');
}

/** Whose an object is, by its name; null where it is not of this cluster. What follows the mark after an underscore is `rest`. */
export function parseMark(
  text: string,
  cluster: string,
): { readonly id: BalancerId; readonly rest: readonly string[] } | null {
  const [program, ofCluster, namespace = '', name = '', uid = '', ...rest] = text.split('_');
  if (program !== 'vipnat' || ofCluster !== cluster || uid === '') return null;
  return { id: { cluster, namespace, name, uid }, rest };
}

/** Whether a cluster may have this name: lower case letters, digits and `-`, 40 at most, and none of the three at an end but the first two. */
export function isClusterName(text: string): boolean {
  return /^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$/.test(text);
}
