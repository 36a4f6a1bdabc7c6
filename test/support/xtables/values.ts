import ipaddr from 'ipaddr.js';
import { type Family, parseAddress } from '../../../lib/address/address.ts';

/** An address or prefix as the tools print it after `-s` and `-d`; null for the one that matches everything. */
export function printPrefix(text: string, family: Family): string | null {
  const [address = '', mask] = text.split('/');
  const bits = family === 'ipv6' ? 128 : 32;
  if (parseAddress(address)?.family !== family) throw new Error(`host/network \`${text}' not found`);
  const length = mask === undefined ? bits : toPrefixLength(mask);
  if (length === 0) return null;
  const network = (family === 'ipv6' ? ipaddr.IPv6 : ipaddr.IPv4).networkAddressFromCIDR(
    `${address}/${length}`,
  );
  return `${printAddress(network.toString())}/${length}`;
}

/** An address in canonical text; what is none stays as it is. */
export function printAddress(text: string): string {
  return parseAddress(text)?.text ?? text;
}

/** A probability as the kernel keeps it, in multiples of 2^-31, and the tools print it. */
export function printProbability(text: string): string {
  return (Math.floor(Number(text) * 2 ** 31 + 0.5) / 2 ** 31).toFixed(11);
}

/** A comment, in quotes unless it is a plain word, as xtables_save_string() has it. */
export function printComment(text: string): string {
  return /^[\w-]+$/.test(text) ? text : `"${text.replaceAll(/["'\\]/g, String.raw`\$&`)}"`;
}

/** `tcp` for 6 and the like; null for all protocols. */
export function printProtocol(text: string): string | null {
  const numberToName: Record<string, string> = { 1: 'icmp', 6: 'tcp', 17: 'udp', 58: 'ipv6-icmp' };
  if (text === 'all' || text === '0') return null;
  return numberToName[text] ?? text;
}

/** `0x4000/0x4000`, for any of MARK's ways to say it. */
export function printMark(option: string, value: string): string {
  const mark = `0x${Number(value.split('/')[0]).toString(16)}`;
  if (option === '--or-mark') return `${mark}/${mark}`;
  if (option === '--xor-mark') return `${mark}/0x0`;
  return value.includes('/') ? value : `${mark}/0xffffffff`;
}

function toPrefixLength(mask: string): number {
  return mask.includes('.') ? (ipaddr.IPv4.parse(mask).prefixLengthFromSubnetMask() ?? 0) : Number(mask);
}
