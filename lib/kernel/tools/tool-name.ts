import { type Family } from '../../address/address.ts';
import { type Dialect } from '../port.ts';

/** The name of a backend's tool: `toolName('ipv6', 'legacy', 'restore')` is `ip6tables-legacy-restore`; that of nftables is nft. */
export function toolName(family: Family, dialect: Dialect, suffix?: 'save' | 'restore'): string {
  if (dialect === 'nftables') return 'nft';
  const base = `${family === 'ipv6' ? 'ip6tables' : 'iptables'}-${dialect}`;
  return suffix === undefined ? base : `${base}-${suffix}`;
}
