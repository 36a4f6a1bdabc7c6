import ipaddr from 'ipaddr.js';
import { type Endpoint } from '../../address/endpoint.ts';
import { parseRule, type Rule } from './rule.ts';

/** Targets that let the packet go on to the next rule: standing before our hook they take nothing away. */
const passingTargets = new Set([
  'LOG',
  'NFLOG',
  'ULOG',
  'TRACE',
  'MARK',
  'CONNMARK',
  'CT',
  'NOTRACK',
  'SET',
  'AUDIT',
  'TCPMSS',
  'CLASSIFY',
]);

/**
 * Chains that may stand before ours. Their owners put them first and put them back there for ever (Calico Felix
 * with ChainInsertMode Insert, Cilium, kube-router): insisting would start a fight that nobody wins. What they
 * decide (network policy, floating IPs) is meant to come before any balancing, a VIP's included.
 */
const patientChains = /^(?:cali-|CILIUM_|OLD_CILIUM_|KUBE-ROUTER-|KUBE-NWPLCY-)/;

/**
 * Whether a foreign rule that stands before our hook could decide about a packet to one of the VIPs, so that the
 * hook would not see it. This is the constraint on the hook's place; an index never is.
 */
export function isRival(text: string, vips: readonly Endpoint[]): boolean {
  const rule = parseRule(text);
  if (rule.target === null || passingTargets.has(rule.target) || patientChains.test(rule.target))
    return false;
  return vips.some((vip) => mayMatch(rule, vip));
}

function mayMatch({ options }: Rule, vip: Endpoint): boolean {
  const protocol = options.get('-p');
  if (protocol !== undefined && protocol !== 'tcp' && protocol !== '6') return false;
  const destination = options.get('-d');
  if (destination !== undefined && !isWithin(vip.address, destination)) return false;
  const port = options.get('--dport');
  return port === undefined || isPortWithin(vip.port, port);
}

function isWithin(address: string, prefix: string): boolean {
  try {
    const range = prefix.includes('/') ? prefix : `${prefix}/${address.includes(':') ? 128 : 32}`;
    return ipaddr.parse(address).match(ipaddr.parseCIDR(range));
  } catch {
    // A netmask iptables accepts and ipaddr.js does not (non-contiguous): it may match.
    return true;
  }
}

function isPortWithin(port: number, range: string): boolean {
  const [first, last = first] = range.split(':').map(Number);
  return first === undefined || last === undefined || (first <= port && port <= last);
}
