import { type Family } from '../address/address.ts';
import { type Backend } from './port.ts';

/** The name of a backend's tool: `toolName('ipv6', 'legacy', 'restore')` is `ip6tables-legacy-restore`. */
export function toolName(family: Family, backend: Backend, suffix?: 'save' | 'restore'): string {
  const base = `${family === 'ipv6' ? 'ip6tables' : 'iptables'}-${backend}`;
  return suffix === undefined ? base : `${base}-${suffix}`;
}
