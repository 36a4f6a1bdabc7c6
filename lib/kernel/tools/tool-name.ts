import { type Family } from '../../address/address.ts';
import { type RuleBackend } from '../port.ts';

/** The name of a backend's tool: `toolName('ipv6', 'legacy', 'restore')` is `ip6tables-legacy-restore`; that of nftables is nft. */
export function toolName(family: Family, backend: RuleBackend, suffix?: 'save' | 'restore'): string {
  if (backend === 'nftables') return 'nft';
  const base = `${family === 'ipv6' ? 'ip6tables' : 'iptables'}-${backend}`;
  return suffix === undefined ? base : `${base}-${suffix}`;
}
