import * as z from 'zod/mini';
import { safeInterface } from '../../../lib/keepalived/words.ts';
import { address, duration, wholeNumber } from '../../../config/values.ts';
import { bySchema, eachBySchema, list, type OptionsOf, text } from '../../flags/flag.ts';

/** keepalived takes 255 for the address's owner, which tracking cannot lower. */
const largestPriority = 254;

/** RFC 3768's own default. */
const defaultAdvertMs = 1000;

const interfaceName = z.string().check(z.regex(safeInterface, { error: 'is not a name of an interface' }));

// VRRPv3 has hundredths of a second (RFC 9568, section 5.2.7).
const advert = duration(100, 10_000).check(z.multipleOf(10, { error: 'is not a multiple of 10ms' }));

const outputFile = z.string().check(z.minLength(1, { error: 'names no file' }));

/** What says how keepalived.conf is filled in, which its manifest takes too. */
export const vrrpFlags = {
  /** The interface of all virtual IPs; null finds one for each. Its name is safe to print anywhere. */
  interface: text(
    'NAME',
    'the interface of the virtual IPs, if vipnat cannot detect it',
    bySchema(z.nullable(interfaceName), null, 'eth0'),
  ),
  /** The masters; empty for those of `--endpoints`. This node may be one of them, and any may be named twice. */
  peers: list(
    'ADDR,…',
    "the masters' addresses, for unicast; this node may be one (default: --endpoints, or multicast)",
    eachBySchema(address, '10.0.0.11,10.0.0.12,10.0.0.13'),
  ),
  /** virtual_router_ids, 1 to 255: none, one for all addresses, or one for each in the order of `--vip`. */
  vrid: list(
    'N,…',
    'virtual_router_id, one for each VIP (default: the last byte plus 1)',
    eachBySchema(wholeNumber(1, 255), '51'),
  ),
  /** 1 to 254; null derives it from the masters' addresses. */
  priority: text(
    'N',
    "from 1 to 254 (default: by this node's place among the masters)",
    bySchema(z.nullable(wholeNumber(1, largestPriority)), null, '110'),
  ),
  /** From one advert to the next, in milliseconds: 100 to 10,000, in hundredths of a second. */
  advert: text(
    'DURATION',
    'the time between two adverts, such as 300ms (default: 1s)',
    bySchema(advert, defaultAdvertMs, '300ms'),
  ),
};

/** The flags of `vipnat keepalived`. */
export const keepalivedFlags = {
  ...vrrpFlags,
  /** The file to write to; null for standard output. */
  output: text(
    'FILE',
    'a file to write to (default: standard output)',
    bySchema(z.nullable(outputFile), null, '/etc/keepalived/keepalived.conf'),
  ),
};

/** What they are read as. */
export type KeepalivedOptions = OptionsOf<typeof keepalivedFlags>;

/** Those that say how keepalived.conf is filled in. */
export type VrrpOptions = OptionsOf<typeof vrrpFlags>;

/** The flags that stand for checked switches, `--peers=10.0.0.11,10.0.0.12`; one with its default gets none. */
export function toKeepalivedArguments(options: VrrpOptions & Partial<KeepalivedOptions>): string[] {
  const { interface: device, peers, vrid, priority, advert: advertMs, output = null } = options;
  return [
    ...(device === null ? [] : [`--interface=${device}`]),
    ...(peers.length === 0 ? [] : [`--peers=${peers.map(({ text }) => text).join()}`]),
    ...(vrid.length === 0 ? [] : [`--vrid=${vrid.join()}`]),
    ...(priority === null ? [] : [`--priority=${priority}`]),
    ...(advertMs === defaultAdvertMs ? [] : [`--advert=${advertMs}ms`]),
    ...(output === null ? [] : [`--output=${output}`]),
  ];
}
