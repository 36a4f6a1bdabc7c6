import ipaddr from 'ipaddr.js';
import { type Endpoint } from '../../address/endpoint.ts';
import { type Packet } from './packets.ts';
import { type Rule } from './rule.ts';

/**
 * Whether a rule may match a packet. What it asks for beside protocol, addresses, ports, connection state and `lo` may be so: only
 * what cannot be is excluded. Pure and total.
 */
export function mayMatch({ options }: Rule, packet: Packet): boolean {
  return (
    [...options].every(([option, value]) => mayHold(option, value, packet)) &&
    !(options.get('-i') === 'lo' && packet.isFromOutside)
  );
}

/** Whether a rule matches a packet, whatever of the packet is unknown. Pure and total. */
export function surelyMatches({ options }: Rule, packet: Packet): boolean {
  return [...options].every(
    ([option, value]) => isNoCondition(option) || holds(option, value, packet) === true,
  );
}

function mayHold(option: string, value: string, packet: Packet): boolean {
  return holds(option, value, packet) !== false;
}

/** One condition of a rule; null where it may hold and may not. A repeated option has a number behind it. */
function holds(printed: string, value: string, packet: Packet): boolean | null {
  const option = printed.replace(/#\d+$/, '');
  const isNegated = option.startsWith('!');
  const answer = conditions[isNegated ? option.slice(1) : option]?.(value, packet) ?? null;
  return answer === null ? null : answer !== isNegated;
}

/** What names a match, a target or a comment. */
function isNoCondition(option: string): boolean {
  return /^(?:-m|-j|-g|--comment|--notrack)(?:#\d+)?$/.test(option);
}

/** Whether it holds; null where it may and may not. */
type Condition = (value: string, packet: Packet) => boolean | null;

const conditions: Readonly<Record<string, Condition>> = {
  '-p': (protocol) => ['tcp', '6', 'all', '0'].includes(protocol),
  '-s': (prefix, { source }) => isWithin(source, prefix),
  '-d': (prefix, { destination }) => isWithin(destination, prefix),
  '--sport': comesFromPort,
  '--sports': comesFromPort,
  '--dport': goesToPort,
  '--dports': goesToPort,
  '--ctstate': isInState,
  '--state': isInState,
};

function isWithin(endpoint: Endpoint | null, prefix: string): boolean | null {
  if (endpoint === null) return null;
  const { address, family } = endpoint;
  try {
    const range = prefix.includes('/') ? prefix : `${prefix}/${family === 'ipv6' ? 128 : 32}`;
    return ipaddr.parse(address).match(ipaddr.parseCIDR(range));
  } catch {
    // A netmask that iptables accepts and ipaddr.js does not (non-contiguous).
    return null;
  }
}

/** Where one end is known, the other one is a client. */
function comesFromPort(ports: string, { source, destination }: Packet): boolean | null {
  return hasPort(source, ports, destination !== null);
}

function goesToPort(ports: string, { source, destination }: Packet): boolean | null {
  return hasPort(destination, ports, source !== null);
}

/** The ports below are servers': clients have higher ones, unless they ask for them. */
const firstClientPort = 1024;

/** Of `6443`, `6000:7000` and, by multiport, `443,6000:7000`. */
function hasPort(endpoint: Endpoint | null, ports: string, isClient: boolean): boolean | null {
  const ranges = ports.split(',').map((range) => {
    const [first = 0, last = first] = range.split(':').map(Number);
    return { first, last };
  });
  if (endpoint !== null)
    return ranges.some(({ first, last }) => first <= endpoint.port && endpoint.port <= last);
  return isClient && ranges.every(({ last }) => last < firstClientPort) ? false : null;
}

function isInState(value: string, { states, isTranslated }: Packet): boolean | null {
  const listed = value.split(',');
  if (isTranslated && listed.includes('DNAT')) return true;
  if (isTranslated && listed.includes('SNAT')) return null;
  const found = states.filter((state) => listed.includes(state));
  if (found.length === states.length) return true;
  return found.length === 0 ? false : null;
}
