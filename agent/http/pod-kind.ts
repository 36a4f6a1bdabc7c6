/** What may run the agent in a pod. */
const podKinds = ['daemonset', 'static-pod'] as const;

/** What runs the agent in a pod; VIPNAT_POD names it. */
export type PodKind = (typeof podKinds)[number];

/** Whether a text names one. */
export function isPodKind(text: string): text is PodKind {
  return podKinds.some((kind) => kind === text);
}
