/** The object that an event is about, as events.k8s.io/v1 has it. */
export interface Regarding {
  readonly apiVersion: string;
  readonly kind: string;
  /** Left out for what has no namespace. */
  readonly namespace?: string;
  readonly name: string;
  readonly uid: string;
}

/** A node. It is what `kubectl describe node` looks for: by the kubelet's custom, a node's uid is its name. */
export function toNodeRegarding(node: string): Regarding {
  return { apiVersion: 'v1', kind: 'Node', name: node, uid: node };
}
