import ipaddr from 'ipaddr.js';
import { type Address } from './address.ts';

/**
 * What an address can be used for. Only `unicast` can name one host that others reach; it includes private,
 * carrier-grade, documentation and unique local addresses.
 */
export type Scope =
  'unicast' | 'unspecified' | 'loopback' | 'linkLocal' | 'multicast' | 'broadcast' | 'ipv4Mapped';

/** The scope of an address: 0.0.0.0/8 counts as unspecified, ::ffff:0:0/96 as ipv4Mapped. */
export function classifyAddress({ text }: Address): Scope {
  const range = ipaddr.parse(text).range();
  return range in scopes ? (range as Scope) : 'unicast';
}

const scopes: Readonly<Record<Exclude<Scope, 'unicast'>, true>> = {
  unspecified: true,
  loopback: true,
  linkLocal: true,
  multicast: true,
  broadcast: true,
  ipv4Mapped: true,
};
