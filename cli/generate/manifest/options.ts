import { type Endpoint } from '../../../lib/address/endpoint.ts';
import { type KeepalivedOptions } from '../keepalived/options.ts';

/** What `vipnat manifest` can print. */
export const manifestKinds = ['daemonset', 'static-pod', 'keepalived', 'systemd', 'services'] as const;

/** One of manifestKinds. */
export type ManifestKind = (typeof manifestKinds)[number];

/** The namespace that is taken when none is given. */
export const defaultNamespace = 'kube-system';

/** The namespace of what Services need: it is vipnat's alone, because whoever may write its Leases says which nodes live. */
export const servicesNamespace = 'vipnat-system';

/** This host only, on a port beside that of the agent, which may run there, too. */
export const defaultBalancerListen: Endpoint = { family: 'ipv4', address: '127.0.0.1', port: 10_269 };

/**
 * kube-proxy's, for load balancers: Kubernetes' list of ports has firewalls let it pass. Without a kube-proxy the node refuses, which is an
 * answer, too.
 */
export const defaultProbePort = 10_256;

/** The images that scripts/image makes, each with its registry and tag. */
export interface OwnImages {
  readonly vipnat: string;
  readonly keepalived: string;
}

/** The switches of `vipnat manifest`, as they were given: `findManifestProblems` says what is wrong with them. */
export interface ManifestOptions {
  readonly kind: ManifestKind;
  /** vipnat's image, as a reference; null for that of this build. */
  readonly image: string | null;
  readonly namespace: string;
  /** Whether the DaemonSet does without privileged; static pods always do. */
  readonly leastPrivilege: boolean;
  /** An image with a program keepalived; null for that of this build. */
  readonly keepalivedImage: string | null;
  /** The folder below which the files of `systemd` are written; null to print them, or what else is asked for. */
  readonly directory: string | null;
  /** How keepalived.conf is to be filled in on each node; defaults but for `keepalived`. */
  readonly keepalived: KeepalivedOptions;
  /** Ranges of the pool of `services`. */
  readonly pools: readonly string[];
  /** Whether the controller of `services` serves Services without a class. */
  readonly isDefaultClass: boolean;
  /** The device of Services without a class that have annotations of another controller, as it was given; null for none. */
  readonly defaultDevice: string | null;
  /** Further types of readiness gates that this controller opens. */
  readonly gates: readonly string[];
  /** What gives pods the gate in `services`, as it was given: one of injectionMethods, or nonsense; null for nothing. */
  readonly injection: string | null;
  /** Where the balancers of `services` serve metrics, as it was given; null for the default. */
  readonly balancerListen: string | null;
  /** Where the balancers of `services` ask whether other nodes live, as it was given; null for the default. */
  readonly nodeProbePort: string | null;
}
