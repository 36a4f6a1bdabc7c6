/** What steps are asked for: each key has its own place in the queue. */
export type StepKey =
  | { readonly kind: 'Service'; readonly namespace: string; readonly name: string }
  | { readonly kind: 'VirtualIP'; readonly name: string }
  | { readonly kind: 'AddressPool'; readonly name: string }
  /** Of a node: see `node-report.ts`. */
  | { readonly kind: 'Lease'; readonly name: string }
  /** Of a Service: its early EndpointSlices. */
  | { readonly kind: 'EarlySlices'; readonly namespace: string; readonly name: string }
  /** Of a pod: its gates. */
  | { readonly kind: 'Pod'; readonly namespace: string; readonly name: string };

/** Kinds of objects that steps write. */
export type WrittenKind = 'Service' | 'VirtualIP' | 'AddressPool' | 'Lease' | 'Pod' | 'EndpointSlice';

/** Changes that all keys with such a wait are to be looked at after. A change of the key's own objects is always such a one. */
export type WaitsFor =
  /** A report of a node, a node that comes or goes, a Lease that ran out. */
  | 'nodes'
  /** A VirtualIP that is deleted or given back, a pool, a namespace's labels. */
  | 'addresses'
  /** Time alone: see `untilMs`. */
  | 'time';
