import { type CandidateNodes } from './candidate-nodes.ts';
import { type TakenAddresses } from './taken-addresses.ts';
import { type KeptBack } from './kept-back.ts';
import { type Objects, type Known } from './known.ts';

/** All that steps are decided from. See `Cache`. */
export interface World extends Known {
  /** VirtualIPs to when they were first looked at as they are now wanted, as milliseconds since 1970. */
  readonly generationMs: ReadonlyMap<string, number>;
  /** VirtualIPs to the version that was heard first of what is now wanted of them. */
  readonly generationVersions: ReadonlyMap<string, string>;
  /** What living nodes have programmed, pool by pool. */
  readonly candidates: CandidateNodes;
  /** Addresses that Services name for themselves. */
  readonly keptBack: KeptBack;
  /** Addresses of devices that somebody has. */
  readonly takenAddresses: TakenAddresses;
  /** VRIDs on the pools' networks that others have: the API's virtual IPs. */
  readonly reservedVrids: ReadonlySet<number>;
  /** Keys of Services whose status another program rewrites, to who may be it: names of field managers, or none. */
  readonly contested: ReadonlyMap<string, readonly string[]>;
  /** The date, as milliseconds since 1970. It can jump. */
  readonly nowMs: number;
}

/** Kinds of objects that steps write, to where they are known. */
export const kindToSource = {
  Service: 'services',
  VirtualIP: 'virtualIps',
  AddressPool: 'pools',
  Lease: 'leases',
  Pod: 'pods',
  EndpointSlice: 'earlySlices',
  LoadBalancerDevice: 'devices',
} as const satisfies Record<string, keyof Objects>;

/** One of them. */
export type WrittenKind = keyof typeof kindToSource;

/** What of an object's metadata is of use for any of them; empty for one that is not known. */
interface KnownMetadata {
  readonly uid?: string;
  readonly resourceVersion?: string;
  readonly managedFields?: readonly string[] | null;
}

/** The metadata of an object of a source. */
export function findMetadata(known: Known, source: keyof Objects, key: string): KnownMetadata {
  return (known[source].get(key) as { readonly metadata?: KnownMetadata } | undefined)?.metadata ?? {};
}
