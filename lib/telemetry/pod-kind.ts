/** What may run vipnat in a pod. A controller is of a Deployment. */
const podKinds = ['daemonset', 'static-pod', 'deployment'] as const;

/** What runs vipnat in a pod; VIPNAT_POD names it. */
export type PodKind = (typeof podKinds)[number];

/** Whether a text names one. */
export function isPodKind(text: string): text is PodKind {
  return podKinds.some((kind) => kind === text);
}

/** In a probe's path: which pod it is about. Pods of a host share its network, so the probes of one that waits come to the agent that runs. */
export const podParameter = 'pod';
