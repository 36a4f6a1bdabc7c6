import { type Endpoint, formatEndpoint } from '../../../lib/address/endpoint.ts';
import { injectionMethods } from '../../../lib/services/injection.ts';
import { forKinds, list, optional, type OptionsOf, text, toggle } from '../../flags/flag.ts';
import { vrrpFlags } from '../keepalived/options.ts';

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

/** What help says of `--node-probe-port`. */
export const probePortMeaning = `the TCP port at which to ask whether other nodes live, or off (default: ${defaultProbePort})`;

/** The images that scripts/image makes, each with its registry and tag. */
export interface OwnImages {
  readonly vipnat: string;
  readonly keepalived: string;
}

/** The flags that are for the kind `services` alone. */
export const servicesFlags = forKinds(['services'], {
  /** Ranges of the pool. */
  pool: list('RANGE', 'for services: addresses to give; repeat the flag for more'),
  /** Whether the controller serves Services without a class. */
  defaultClass: toggle('for services: serve Services without a class too'),
  /** The device of Services without a class that have annotations of another controller; null for none. */
  defaultDevice: text(
    'NAME',
    'for services: the LoadBalancerDevice of Services without a class that have an annotation lb.zcloud.cn/vip or lb.zdns.cn/vip',
  ),
  /** Further types of readiness gates that the controller opens. */
  gate: list('TYPE', 'for services: also open readiness gates of this type; repeat the flag for more'),
  /** What gives pods the gate: one of injectionMethods, or nonsense; null for nothing. */
  injectGates: optional(
    'METHOD',
    'for services: give pods a readiness gate where their namespace asks for it, by policy (default, Kubernetes 1.36) or webhook',
    (given): string | null => (given === true ? injectionMethods[0] : (given ?? null)),
  ),
  /** Where the balancers serve metrics; null for the default. */
  balancerListen: text(
    'ADDR:PORT',
    `for services: where balancers serve metrics and readiness, or off (default: ${formatEndpoint(defaultBalancerListen)})`,
  ),
  /** Where the balancers ask whether other nodes live; null for the default. */
  nodeProbePort: text('PORT', `for services: ${probePortMeaning}`),
});

const pods = ['', 'daemonset', 'static-pod', 'keepalived', 'services'];

/** The flags of `vipnat manifest`, read as they were given: `findManifestProblems` says what is wrong with them. */
export const manifestFlags = {
  ...servicesFlags,
  ...forKinds(pods, {
    /** vipnat's image, as a reference; null for that of this build. */
    image: text('IMAGE', 'the image to run (default: the image of this build)'),
    namespace: text(
      'NAME',
      `where to run it; ${servicesNamespace} for services (default: ${defaultNamespace})`,
      (given, { words: [kind] }) => given ?? chooseNamespace(kind),
    ),
  }),
  ...forKinds(['daemonset'], {
    /** Whether the DaemonSet does without privileged; static pods always do. */
    leastPrivilege: toggle('three capabilities instead of privileged'),
  }),
  ...forKinds(['keepalived', 'services'], {
    /** An image with a program keepalived; null for that of this build. */
    keepalivedImage: text(
      'IMAGE',
      'for keepalived and services: an image with keepalived (default: the image of this build)',
    ),
  }),
  ...forKinds(['systemd'], {
    /** The folder below which the files are written; null to print them, or what else is asked for. */
    directory: text('FOLDER', 'for systemd: the root folder to write the files to (default: print them)'),
  }),
  ...forKinds(['keepalived'], vrrpFlags),
};

/** What `vipnat manifest` is asked for. */
export type ManifestOptions = OptionsOf<typeof manifestFlags> & { readonly kind: ManifestKind };

/** The namespace of a kind where none is given. */
export function chooseNamespace(kind: string | undefined): string {
  return kind === 'services' ? servicesNamespace : defaultNamespace;
}
