/**
 * The tables in which the kernel notes whose VRRP adverts come to this host.
 *
 * They are tables of their own: they are there before the first Service, when a seat gets its VRID. The Services' tables are replaced whole at times, and
 * whoever refuses one of both keeps the other. Other packets pass one comparison.
 */
import { type Family } from '../../lib/address/address.ts';
import { familyToBits, fromNumber } from '../../lib/services/ranges.ts';
import { readNftObjects } from '../../lib/netfilter/nftables/objects.ts';
import { familyToNft } from '../../lib/kernel/netlink/nft-chains.ts';

/** Their name. */
export const hearingTable = 'vipnat-vrrp';

/** An advert as the kernel noted it. */
export interface HeardAdvert {
  /** The interface that it came by. */
  readonly device: string;
  /** Who sent it. */
  readonly from: string;
  readonly vrid: number;
  /** The first virtual address in it. CARP has a number there that changes. */
  readonly first: string;
}

/** A sender that is silent for so long is forgotten. */
const timeoutSeconds = 20;

/** More senders than a network has. The kernel notes no further one. */
const size = 512;

/** As `nft -n` prints it: VRRP is 112, and only a neighbour's packets have this TTL. */
const match = {
  ipv4: 'meta l4proto 112 ip ttl 255 jump note',
  ipv6: 'meta l4proto 112 ip6 hoplimit 255 jump note',
} as const;

/** Before rules of a firewall: what it drops is on the network all the same. */
const hook = 'type filter hook prerouting priority -300; policy accept;';

/** `ip vipnat-vrrp` or `ip6 vipnat-vrrp`. */
export function nameHearingTable(family: Family): string {
  return `${familyToNft[family]} ${hearingTable}`;
}

/**
 * A script that writes the table anew. nft 1.0.6 cannot print a rule that has both the protocol and bytes of its header, so these are two rules: it
 * would end at each `nft list ruleset`.
 */
export function printHearing(family: Family): string {
  const table = nameHearingTable(family);
  const key = `iifname . ${familyToNft[family]} saddr . @th,8,8 . @th,64,${familyToBits[family]}`;
  return [
    `add table ${table}`,
    `delete table ${table}`,
    `add table ${table}`,
    `add set ${table} senders { typeof ${key}; size ${size}; flags dynamic,timeout; timeout ${timeoutSeconds}s; }`,
    `add chain ${table} note`,
    `add rule ${table} note update @senders { ${key} }`,
    `add chain ${table} prerouting { ${hook} }`,
    `add rule ${table} prerouting ${match[family]}`,
  ]
    .map((command) => `${command}\n`)
    .join('');
}

/**
 * What the kernel has noted, by what `nft -n list table` printed; null where the table is not as it was written.
 * @throws VipnatError TOOL_OUTPUT_UNEXPECTED for text that is no table
 */
export function readHearing(text: string, family: Family): HeardAdvert[] | null {
  if (text.trim() === '') return null;
  const { objects } = readNftObjects(text, nameHearingTable(family));
  const find = (name: string) => objects.find((one) => one.name === name)?.statements ?? [];
  if (!find('prerouting').includes(match[family]) || find('note').length === 0) return null;
  const elements = find('senders').find((statement) => statement.startsWith('elements = {')) ?? '';
  // nft 1.0.6: `"eth0" . 10.77.0.9 . 0x33 . 0xa4d0032 expires 19s`.
  return [...elements.matchAll(/"([^"]*)" \. (\S+) \. (0x[0-9a-f]+|\d+) \. (0x[0-9a-f]+|\d+)/g)].map(
    ([, device = '', from = '', vrid = '', first = '']) => ({
      ...{ device, from, vrid: Number(vrid) },
      first: fromNumber(family, BigInt(first)).text,
    }),
  );
}
