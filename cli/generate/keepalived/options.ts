import * as z from 'zod/mini';
import { type Address } from '../../../lib/address/address.ts';
import { safeInterface } from '../../../lib/keepalived/words.ts';
import { quoteText, splitList } from '../../../config/setting.ts';
import { address, duration, list, wholeNumber } from '../../../config/values.ts';

/** The own switches of `vipnat keepalived`, checked. */
export interface KeepalivedOptions {
  /** The interface of all virtual IPs; null finds one for each. Its name is safe to print anywhere. */
  readonly interface: string | null;
  /** The masters; empty for those of `--endpoints`. This node may be one of them, and any may be named twice. */
  readonly peers: readonly Address[];
  /** virtual_router_ids, 1 to 255: none, one for all addresses, or one for each in the order of `--vip`. */
  readonly vrid: readonly number[];
  /** 1 to 254; null derives it from the masters' addresses. */
  readonly priority: number | null;
  /** From one advert to the next, in milliseconds: 100 to 10,000, in hundredths of a second. */
  readonly advert: number;
  /** The file to write to; null for standard output. */
  readonly output: string | null;
}

/** The same as words of the command line; of a list, each text can hold several values with commas. */
export interface KeepalivedWords {
  readonly interface?: string;
  readonly peers?: readonly string[];
  readonly vrid?: readonly string[];
  readonly priority?: string;
  readonly advert?: string;
  readonly output?: string;
}

/** keepalived takes 255 for the address's owner, which tracking cannot lower. */
const largestPriority = 254;

/** RFC 3768's own default. */
const defaultAdvertMs = 1000;

const schema = z.object({
  interface: z._default(
    z.nullable(z.string().check(z.regex(safeInterface, { error: 'is not a name of an interface' }))),
    null,
  ),
  peers: z._default(list(address), []),
  vrid: z._default(list(wholeNumber(1, 255)), []),
  priority: z._default(z.nullable(wholeNumber(1, largestPriority)), null),
  // VRRPv3 has hundredths of a second (RFC 9568, section 5.2.7).
  advert: z._default(
    duration(100, 10_000).check(z.multipleOf(10, { error: 'is not a multiple of 10ms' })),
    defaultAdvertMs,
  ),
  output: z._default(z.nullable(z.string().check(z.minLength(1, { error: 'names no file' }))), null),
});

const examples = {
  interface: 'eth0',
  peers: '10.0.0.11,10.0.0.12,10.0.0.13',
  vrid: '51',
  priority: '110',
  advert: '300ms',
  output: '/etc/keepalived/keepalived.conf',
} as const satisfies Record<keyof KeepalivedOptions, string>;

/** The names of the switches, without dashes. */
export const keepalivedSwitches = Object.keys(examples) as readonly (keyof KeepalivedOptions)[];

/** Reads the switches; one line for each problem, and then the defaults. */
export function readKeepalivedOptions(words: KeepalivedWords): {
  readonly options: KeepalivedOptions;
  readonly problems: readonly string[];
} {
  const given = {
    ...words,
    ...(words.peers && { peers: words.peers.flatMap(splitList) }),
    ...(words.vrid && { vrid: words.vrid.flatMap(splitList) }),
  };
  const result = schema.safeParse(given);
  if (result.success) return { options: result.data, problems: [] };
  const problems = result.error.issues.map(({ path, message }) => {
    const name = path[0] as keyof KeepalivedOptions;
    const value = given[name];
    const text = typeof value === 'object' ? value[Number(path[1])] : value;
    return `--${name} ${quoteText(text ?? '')} ${message}. Example: --${name} ${examples[name]}`;
  });
  return { options: schema.parse({}), problems };
}

/** The flags that stand for checked switches, `--peers=10.0.0.11,10.0.0.12`; one with its default gets none. */
export function toKeepalivedArguments(options: KeepalivedOptions): string[] {
  const { interface: device, peers, vrid, priority, advert, output } = options;
  return [
    ...(device === null ? [] : [`--interface=${device}`]),
    ...(peers.length === 0 ? [] : [`--peers=${peers.map(({ text }) => text).join()}`]),
    ...(vrid.length === 0 ? [] : [`--vrid=${vrid.join()}`]),
    ...(priority === null ? [] : [`--priority=${priority}`]),
    ...(advert === defaultAdvertMs ? [] : [`--advert=${advert}ms`]),
    ...(output === null ? [] : [`--output=${output}`]),
  ];
}
