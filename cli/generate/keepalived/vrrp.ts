import { type Address } from '../../../lib/address/address.ts';

/** One virtual address as keepalived holds it. */
export interface VrrpInstance {
  readonly vip: Address;
  /** The interface that carries the address and the adverts. */
  readonly device: string;
  /** 1 to 255. */
  readonly vrid: number;
  /** Who gets the adverts, of the VIP's family; null for multicast. */
  readonly unicast: { readonly source: string; readonly peers: readonly string[] } | null;
}

/** All that a node's keepalived is told. */
export interface Vrrp {
  /** The node's name, for keepalived's own use; without blanks and quotes. */
  readonly node: string;
  /** At least one; no two of a family have the same virtual_router_id. */
  readonly instances: readonly VrrpInstance[];
  /** 1 to 254, the same for all instances. */
  readonly priority: number;
  /** In milliseconds. */
  readonly advertMs: number;
  /** The file by which the agent says whether this node can serve; a path without blanks and quotes. */
  readonly trackFile: string;
  /** The named pipe by which it says what state its instances are in; such a path too. */
  readonly notices: string;
}
