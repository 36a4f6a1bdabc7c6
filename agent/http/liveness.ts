import { type Endpoint } from '../../lib/address/endpoint.ts';
import { createHealthPage, healthzPath } from './pages.ts';
import { StatusServer, type StatusServerOptions } from './server.ts';

/**
 * By kind of pod, how far its port is from that of `--listen`. Pods of a host share its network. At a port of its own, an agent
 * that waits answers even while the one that it waits for is frozen.
 */
const podToOffset = { daemonset: 1, 'static-pod': 2 } as const;

/** What runs the agent in a pod; VIPNAT_POD names it. */
export type PodKind = keyof typeof podToOffset;

const maxPort = 65_535;

/** Where the agent of such a pod says whether it is alive, by the address of `--listen`. Pure. */
export function locateLiveness({ family, port }: Endpoint, pod: PodKind): Endpoint {
  const offset = podToOffset[pod];
  return {
    family,
    address: family === 'ipv4' ? '127.0.0.1' : '::1',
    port: port + offset <= maxPort ? port + offset : port - offset,
  };
}

/** What a kubelet is answered with. */
export interface LivenessOptions extends Pick<StatusServerOptions, 'clock' | 'onProblem' | 'onRecovered'> {
  /** Null where nothing is served. */
  readonly listen: Endpoint | null;
  /** VIPNAT_POD; null for an agent in no pod. */
  readonly pod: string | null;
  /** As of PageSources; 0 while it waits for another agent. */
  readonly behindMs: () => number;
}

/** The server that a kubelet asks, to be started before anything else can hang; null for an agent in no pod. */
export function createLivenessServer(options: LivenessOptions): StatusServer | null {
  const { listen, pod, behindMs, ...rest } = options;
  if (listen === null || pod === null || !isPodKind(pod)) return null;
  const endpoint = locateLiveness(listen, pod);
  const pages = new Map([[healthzPath, createHealthPage(behindMs)]]);
  return new StatusServer({ endpoint, pages, ...rest });
}

function isPodKind(text: string): text is PodKind {
  return Object.hasOwn(podToOffset, text);
}
