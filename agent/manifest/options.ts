/** What `vipnat manifest` can print. */
export const manifestKinds = ['daemonset', 'static-pod'] as const;

/** One of manifestKinds. */
export type ManifestKind = (typeof manifestKinds)[number];

/** The namespace that is taken when none is given. */
export const defaultNamespace = 'kube-system';

/** The switches of `vipnat manifest`, as they were given: `findManifestProblems` says what is wrong with them. */
export interface ManifestOptions {
  readonly kind: ManifestKind;
  /** An image reference; null for that of this version. */
  readonly image: string | null;
  readonly namespace: string;
  /** Whether the DaemonSet does without privileged; a static pod always does. */
  readonly leastPrivilege: boolean;
}
