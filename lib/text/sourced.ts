/** A fact and where it was seen, in words for a person: `nat KUBE-SERVICES (iptables-nft)`. */
export interface Sourced<T> {
  readonly value: T;
  readonly seenIn: string;
}
