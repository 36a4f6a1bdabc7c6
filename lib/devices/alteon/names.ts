import { type Address } from '../../address/address.ts';
import ipaddr from 'ipaddr.js';
import { type BalancerId, type Listener, type Member } from '../driver.ts';
import { formatMark, parseMark } from '../mark.ts';

/**
 * What an object of ours is called: the mark, then whose it is. An Alteon takes 255 characters (slbNewCfgEnhRealServerIndex); the longest of these has
 * 254: a mark of 212, `_tcp_65534`, an IPv6 address as 25 digits, and `_65534`.
 */
export interface ParsedName {
  readonly id: BalancerId;
  readonly protocol: Listener['protocol'];
  readonly port: number;
}

/** `MARK_tcp_443`: a listener's group. */
export function nameGroup(id: BalancerId, { protocol, port }: Pick<Listener, 'protocol' | 'port'>): string {
  return `${formatMark(id)}_${protocol}_${port}`;
}

/** `MARK_tcp_443_10.0.0.5`: a listener at one of its addresses. */
export function nameVirtualServer(group: string, address: Address): string {
  return `${group}_${formatToken(address)}`;
}

/** `MARK_tcp_443_10.1.2.3_8080`: a member of a listener. Another listener's member at the same place is another object: it has its own weight. */
export function nameRealServer(group: string, { address, port }: Pick<Member, 'address' | 'port'>): string {
  return `${group}_${formatToken(address)}_${port}`;
}

/** Whose listener an object belongs to; null for what is not of this cluster, or has no such name. */
export function parseName(name: string, cluster: string): ParsedName | null {
  const parsed = parseMark(name, cluster);
  const [protocol, port = ''] = parsed?.rest ?? [];
  if (parsed === null || (protocol !== 'tcp' && protocol !== 'udp') || !/^\d{1,5}$/.test(port)) return null;
  return { id: parsed.id, protocol, port: Number(port) };
}

/** IPv6 in base 36: colons have a meaning of their own in formulas of groups, and 39 characters more than names have room for. */
function formatToken({ family, text }: Address): string {
  if (family === 'ipv4') return text;
  const bytes = ipaddr.IPv6.parse(text).toByteArray();
  const number = bytes.reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
  return number.toString(36).padStart(25, '0');
}
