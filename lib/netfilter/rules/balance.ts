import { createHash } from 'node:crypto';
import { type Endpoint, formatEndpoint } from '../../address/endpoint.ts';

/** How new connections to one VIP are balanced, ready to be rendered. All endpoints are of the VIP's family. */
export interface Balance {
  readonly vip: Endpoint;
  readonly route: Route;
  /** Who rewrites the source address: our own rule, kube-proxy's KUBE-MARK-MASQ, or nobody. */
  readonly masquerade: 'own' | 'kube-mark' | 'none';
}

/** Where new connections go. */
export type Route =
  /** Into somebody else's chain of the same table: in iptables only, and not read back. */
  | { readonly kind: 'jump'; readonly chain: string }
  /** To one of these, each as likely. An empty list leaves them to the VIP's holder. */
  | {
      readonly kind: 'translate';
      readonly backends: readonly Endpoint[];
      /** For how long a client that came once goes to the same backend again; not at all when absent or null. */
      readonly affinitySeconds?: number | null;
    };

/** What rules of ours that are there do with one VIP's new connections, where they translate. */
export interface InstalledBalance {
  /** At least one. */
  readonly backends: readonly Endpoint[];
  /** For how long a client that came once goes to the same backend again; null: not at all. */
  readonly affinitySeconds: number | null;
}

/** The chain that says how one VIP is balanced: `VIPNAT-` and ten hexadecimal digits of its family, address and port. */
export function vipChainName(vip: Endpoint): string {
  return `VIPNAT-${shorten(`${vip.family} ${formatEndpoint(vip)}`, 10)}`;
}

/** The set or list of the clients of a VIP whose place at one backend is kept. */
export function affinityName(vip: Endpoint, backend: Endpoint): string {
  return `${vipChainName(vip)}-${shorten(formatEndpoint(backend), 8)}`;
}

function shorten(text: string, digits: number): string {
  return createHash('sha256').update(text).digest('hex').slice(0, digits);
}
