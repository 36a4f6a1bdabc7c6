/** The words for what clients do. */
export const workloadNames = ['new', 'kept', 'tls', 'apiserver-new', 'apiserver-kept'] as const;

/** One of them. */
export type WorkloadName = (typeof workloadNames)[number];

/** What clients do, and with whom. */
export interface Workload {
  readonly title: string;
  /** The same where there is little room. */
  readonly short: string;
  /** Whether each request has a connection of its own; otherwise connections are kept. */
  readonly isNew: boolean;
  readonly isTls: boolean;
  /** Whether kube-apiserver answers; otherwise a server that has nothing to do. */
  readonly isReal: boolean;
  /** How many ask at the same time, each as soon as it was answered. */
  readonly clients: readonly number[];
}

/** By their words. */
export const workloads: Readonly<Record<WorkloadName, Workload>> = {
  new: {
    title: 'New connections',
    short: 'new',
    ...{ isNew: true, isTls: false, isReal: false },
    clients: [1, 10, 100, 1000, 10_000],
  },
  kept: {
    title: 'Requests on open connections',
    short: 'kept',
    ...{ isNew: false, isTls: false, isReal: false },
    clients: [1, 10, 100, 1000, 10_000],
  },
  tls: {
    title: 'New connections with TLS',
    short: 'TLS',
    ...{ isNew: true, isTls: true, isReal: false },
    clients: [1, 10, 100, 1000],
  },
  'apiserver-new': {
    title: 'New connections to kube-apiserver',
    short: 'kube-apiserver, new',
    ...{ isNew: true, isTls: true, isReal: true },
    clients: [1, 10, 100],
  },
  'apiserver-kept': {
    title: 'Requests to kube-apiserver on open connections',
    short: 'kube-apiserver, kept',
    ...{ isNew: false, isTls: true, isReal: true },
    clients: [1, 10, 100],
  },
};

/** How long a number of clients is let settle, and measured: many need longer until each was answered a few times. */
export function chooseTimes(clients: number): { readonly warmUpMs: number; readonly windowMs: number } {
  if (clients >= 10_000) return { warmUpMs: 2000, windowMs: 2000 };
  return clients >= 1000 ? { warmUpMs: 500, windowMs: 800 } : { warmUpMs: 150, windowMs: 600 };
}

/** Ten thousand clients take as long as all others together, so only every other round has them. */
export function isInRound(clients: number, round: number): boolean {
  return clients < 10_000 || round % 2 === 1;
}
