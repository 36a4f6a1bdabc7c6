/** What may run vipnat in a pod. A controller is of a Deployment. */
const podKinds = ['daemonset', 'static-pod', 'deployment'] as const;

/** What runs vipnat in a pod; VIPNAT_POD names it. */
export type PodKind = (typeof podKinds)[number];

/** Whether a text names one. */
export function isPodKind(text: string): text is PodKind {
  return podKinds.some((kind) => kind === text);
}
