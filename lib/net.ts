import ipaddr from 'ipaddr.js';
import { isIP } from 'node:net';

/** The fewest CIDRs that have exactly these addresses of one family, in order: `10.0.9.8/30`. */
export function toPrefixes(addresses: readonly Address[]): string[] {
  const ranges = addresses.map((address): AddressRange => {
    const number = toNumber(address);
    return { family: address.family, first: number, last: number };
  });
  return mergeRanges(ranges).flatMap(listBlocks).map(printBlock);
}

/** A block as nft calls it: `10.0.9.8/30`, and an address without its length. */
export function toPrefix(block: AddressRange): string {
  const { family, first, last } = block;
  return first === last ? fromNumber(family, first).text : printBlock(block);
}

function printBlock(block: AddressRange): string {
  const { family, first } = block;
  const length = familyToBits[family] - (countAddresses(block).toString(2).length - 1);
  return `${fromNumber(family, first).text}/${length}`;
}

/** All addresses from one to another, both included, as numbers. */
export interface AddressRange {
  readonly family: Family;
  readonly first: bigint;
  readonly last: bigint;
}

/** How many bits an address has. */
export const familyToBits: Readonly<Record<Family, number>> = { ipv4: 32, ipv6: 128 };

/**
 * Reads `A-B`, `A/LENGTH` or `A`. Answers null for anything else: two families, B before A, bits of a host in a CIDR (10.0.9.5/24 has
 * two meanings). Network and broadcast addresses belong to a range: whoever does not want them given does not list
 * them.
 */
export function parseRange(text: string): AddressRange | null {
  if (text.includes('/')) return parseCidr(text);
  const [from = '', to = from, ...more] = text.split('-').map((part) => part.trim());
  const [first, last] = [parseAddress(from), parseAddress(to)];
  if (first === null || last?.family !== first.family || more.length > 0) return null;
  const range = { family: first.family, first: toNumber(first), last: toNumber(last) };
  return range.first <= range.last ? range : null;
}

/** `10.0.9.10-10.0.9.99`, or one address. */
export function formatRange({ family, first, last }: AddressRange): string {
  const [from, to] = [first, last].map((number) => fromNumber(family, number).text);
  return from === to ? `${from}` : `${from}-${to}`;
}

/** An address as a number: the order of addresses is that of their numbers. */
export function toNumber({ text }: Address): bigint {
  return BigInt(`0x${Buffer.from(ipaddr.parse(text).toByteArray()).toString('hex')}`);
}

/** The address of a number. */
export function fromNumber(family: Family, number: bigint): Address {
  const bytes = Buffer.from(number.toString(16).padStart(familyToBits[family] / 4, '0'), 'hex');
  const text = ipaddr.fromByteArray([...bytes]).toString();
  return parseAddress(text) ?? { family, text };
}

/** How many addresses a range has. */
export function countAddresses({ first, last }: AddressRange): bigint {
  return last - first + 1n;
}

/** Whether a range has an address. */
export function contains(range: AddressRange, address: Address): boolean {
  if (range.family !== address.family) return false;
  const number = toNumber(address);
  return range.first <= number && number <= range.last;
}

/** Whether two ranges have an address in common. */
export function overlap(one: AddressRange, other: AddressRange): boolean {
  return one.family === other.family && one.first <= other.last && other.first <= one.last;
}

/** The same addresses in order, each of them once: ranges that meet are one. */
export function mergeRanges(ranges: readonly AddressRange[]): AddressRange[] {
  const merged: AddressRange[] = [];
  for (const range of ranges.toSorted(compareRanges)) {
    const before = merged.at(-1);
    if (before?.family !== range.family || range.first > before.last + 1n) merged.push(range);
    else if (range.last > before.last) merged.splice(-1, 1, { ...before, last: range.last });
  }
  return merged;
}

/** How many addresses of a family merged ranges have. */
export function countOfFamily(ranges: readonly AddressRange[], family: Family): bigint {
  return ranges
    .filter((range) => range.family === family)
    .reduce((sum, range) => sum + countAddresses(range), 0n);
}

/**
 * The address at an index among those of a family, in the order of the ranges.
 * @throws RangeError when there are not so many.
 */
export function getNth(ranges: readonly AddressRange[], family: Family, index: bigint): Address {
  let left = index;
  for (const range of ranges) {
    if (range.family !== family) continue;
    const count = countAddresses(range);
    if (left < count) return fromNumber(family, range.first + left);
    left -= count;
  }
  throw new RangeError(`no ${family} address has the index ${index}`);
}

/** The index for which `getNth` answers an address; null where no range has it. */
export function findIndex(ranges: readonly AddressRange[], address: Address): bigint | null {
  let before = 0n;
  for (const range of ranges) {
    if (contains(range, address)) return before + toNumber(address) - range.first;
    if (range.family === address.family) before += countAddresses(range);
  }
  return null;
}

function parseCidr(text: string): AddressRange | null {
  const [, base = '', length = ''] = /^([^/]+)\/(0|[1-9]\d{0,2})$/.exec(text.trim()) ?? [];
  const address = parseAddress(base);
  if (address === null) return null;
  const block = toBlock(address, Number(length));
  return block?.first === toNumber(address) ? block : null;
}

/** The block of so many common bits that an address is in; null where it has not so many bits. */
export function toBlock(address: Address, length: number): AddressRange | null {
  const { family } = address;
  const free = BigInt(familyToBits[family] - length);
  if (free < 0n) return null;
  const first = (toNumber(address) >> free) << free;
  return { family, first, last: first + (1n << free) - 1n };
}

/** The fewest blocks that make a range up: the largest one that begins at its first address, and so on. */
export function listBlocks({ family, first, last }: AddressRange): AddressRange[] {
  const blocks: AddressRange[] = [];
  for (let at = first; at <= last;) {
    let size = 1n;
    while (at % (2n * size) === 0n && at + 2n * size - 1n <= last) size *= 2n;
    blocks.push({ family, first: at, last: at + size - 1n });
    at += size;
  }
  return blocks;
}

function compareRanges(one: AddressRange, other: AddressRange): number {
  if (one.family !== other.family) return one.family === 'ipv4' ? -1 : 1;
  return one.first < other.first ? -1 : 1;
}

/**
 * The name of an address's VirtualIP: `10.0.9.10`, or `fd00-9--a` for fd00:9::a. A name begins and ends with a letter or
 * digit (RFC 1123), so `::` at an end gets its zero: `fd00-9--0`.
 */
export function toObjectName({ text }: Address): string {
  return text.replace(/^:/, '0:').replace(/:$/, ':0').replaceAll(':', '-');
}

/** The address that a VirtualIP's name stands for; null when it stands for none, or is not how we write it. */
export function parseObjectName(name: string): Address | null {
  const address = parseAddress(name.includes('.') ? name : name.replaceAll('-', ':'));
  return address !== null && toObjectName(address) === name ? address : null;
}

/** An address as it is in a packet: 4 or 16 bytes. Takes canonical text. */
export function toAddressBytes(text: string): Buffer {
  return Buffer.from(ipaddr.parse(text).toByteArray());
}

/** The canonical text of an address as it is in a packet; null for what is neither 4 nor 16 bytes. */
export function readAddressBytes(bytes: Buffer | undefined): string | null {
  if (bytes?.length === 4) return bytes.join('.');
  if (bytes?.length !== 16) return null;
  return parseAddress(bytes.toString('hex').match(/.{4}/g)?.join(':') ?? '')?.text ?? null;
}

/**
 * The source ports of drain checks: a host that is drained refuses connections to its apiserver from these ports, and
 * accepts all others (`vipnat drain`).
 *
 * Only root connects from a port below 1024. Linux gives such a port to no other program, and its address translation moves
 * no client's port there (nf_nat_l4proto_unique_tuple). So no client is refused by accident. IANA has assigned none of these ports.
 */
export const drainPorts = { first: 914, last: 952 } as const;

/** How many there are. */
export const drainPortCount = drainPorts.last - drainPorts.first + 1;

/** What a drained host refuses: a host that translates its own connections turns a port from 512 to 1023 into one of these. */
export const refusedPorts = { first: 600, last: 1023 } as const;

/** An address and a TCP port: a VIP with its port, or one apiserver. The address is in canonical text. */
export interface Endpoint {
  readonly family: Family;
  readonly address: string;
  /** 1 to 65535. */
  readonly port: number;
}

/**
 * Reads `ADDR:PORT`, `[ADDR6]:PORT`, or, when a default port is given, a bare `ADDR` of either family.
 * Answers null when it is none of these or the port is not 1 to 65535 in plain decimal.
 */
export function parseEndpoint(text: string, defaultPort?: number): Endpoint | null {
  const bare = parseAddress(text);
  if (bare !== null) return defaultPort === undefined ? null : toEndpoint(bare, defaultPort);
  return parseWithPort(text);
}

function parseWithPort(text: string): Endpoint | null {
  const [, six, four = '', port = ''] = /^(?:\[([^\]]+)\]|([^:]+)):([1-9]\d{0,4})$/.exec(text) ?? [];
  const address = parseAddress(six ?? four);
  const isRight = address?.family === (six === undefined ? 'ipv4' : 'ipv6') && Number(port) <= 65_535;
  return isRight ? toEndpoint(address, Number(port)) : null;
}

/** `10.0.0.1:6443` or `[fd00::1]:6443`: the text by which endpoints are compared, sorted and printed. */
export function formatEndpoint({ family, address, port }: Endpoint): string {
  return family === 'ipv6' ? `[${address}]:${port}` : `${address}:${port}`;
}

/** The same endpoints once each, ordered by their text, so that equal sets render to equal bytes (I3). */
export function sortEndpoints(endpoints: readonly Endpoint[]): Endpoint[] {
  const byText = new Map(endpoints.map((endpoint) => [formatEndpoint(endpoint), endpoint]));
  return [...byText].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, endpoint]) => endpoint);
}

/** Whether two lists hold the same endpoints, whatever their order. */
export function areSameEndpoints(left: readonly Endpoint[], right: readonly Endpoint[]): boolean {
  const toText = (endpoints: readonly Endpoint[]) => sortEndpoints(endpoints).map(formatEndpoint).join();
  return toText(left) === toText(right);
}

function toEndpoint({ family, text }: Address, port: number): Endpoint {
  return { family, address: text, port };
}

/** Whether one of them is this one. Pure. */
export function includesEndpoint(endpoints: readonly Endpoint[], endpoint: Endpoint): boolean {
  return endpoints.some((one) => formatEndpoint(one) === formatEndpoint(endpoint));
}

/** Whether a connection to it is one to a virtual IP, whatever its port. Pure. */
export function isAtVip({ address }: Endpoint, vips: readonly Endpoint[]): boolean {
  return vips.some((vip) => vip.address === address);
}

/** How many leading bits two addresses share; 0 for addresses of two families. Takes canonical texts. */
export function countCommonBits(left: string, right: string): number {
  const [a, b] = [left, right].map((text) => ipaddr.parse(text).toByteArray());
  if (a === undefined || b === undefined || a.length !== b.length) return 0;
  const at = a.findIndex((byte, index) => byte !== b[index]);
  return at < 0 ? 8 * a.length : 8 * at + Math.clz32((a[at] ?? 0) ^ (b[at] ?? 0)) - 24;
}

/**
 * What an address can be used for. Only `unicast` can name one host that others reach; it includes private,
 * carrier-grade, documentation and unique local addresses.
 */
export type Scope = 'unicast' | (typeof scopes)[number];

/** The scope of an address: 0.0.0.0/8 counts as unspecified, ::ffff:0:0/96 as ipv4Mapped. */
export function classifyAddress({ text }: Address): Scope {
  const range = ipaddr.parse(text).range();
  return scopes.find((scope) => scope === range) ?? 'unicast';
}

const scopes = ['unspecified', 'loopback', 'linkLocal', 'multicast', 'broadcast', 'ipv4Mapped'] as const;

/** An address family, by the name Kubernetes and people use for it. */
export type Family = 'ipv4' | 'ipv6';

/** Both families, in the order in which they are read, written and printed. */
export const families: readonly Family[] = ['ipv4', 'ipv6'];

/** Addresses that nobody has (RFC 5737, RFC 3849): the route there is the default route. */
export const familyToElsewhere: Readonly<Record<Family, string>> = { ipv4: '192.0.2.1', ipv6: '2001:db8::1' };

/** What is found of each family; one of which nothing is is left out. */
export function mapFamilies<T>(find: (family: Family) => T | undefined): Partial<Record<Family, T>> {
  const found = families.map((family) => [family, find(family)] as const);
  return Object.fromEntries(found.filter(([, one]) => one !== undefined));
}

/** An IP address in canonical text: dotted decimal, or RFC 5952 (lower case, longest zero run compressed). */
export interface Address {
  readonly family: Family;
  readonly text: string;
}

/** What isIP calls 4. Asked first: node:net, which knows the rest, takes 4 ms to load (scripts/late-require.cjs). */
const fourParts = /^(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?!$)|$)){4}$/;

/**
 * Reads one IP address. Answers null for anything else: names, prefixes, zones (`fe80::1%eth0`), brackets,
 * surrounding spaces, and IPv4 written with leading zeros, in octal or with fewer than four parts.
 */
export function parseAddress(text: string): Address | null {
  if (fourParts.test(text)) return { family: 'ipv4', text };
  if (isIP(text) !== 6 || text.includes('%')) return null;
  return { family: 'ipv6', text: ipaddr.IPv6.parse(spellOut(text)).toRFC5952String() };
}

/** With its last four bytes as two groups: ipaddr.js 2.2 takes `::1.2.3.4` for `::ffff:1.2.3.4`. */
function spellOut(text: string): string {
  const [, start = '', four] = /^(.*:)([\d.]+\.[\d.]+)$/.exec(text) ?? [];
  if (four === undefined) return text;
  const [first = 0, second = 0, third = 0, last = 0] = four.split('.').map(Number);
  return `${start}${((first << 8) | second).toString(16)}:${((third << 8) | last).toString(16)}`;
}

/** An address of an interface, in canonical text, with its subnet. */
export interface SubnetAddress {
  readonly address: string;
  /** How many bits of the address name its subnet. */
  readonly prefixLength: number;
}

/**
 * Why an address can be no virtual IP next to these of a host and its gateways: a clause for each address that is wrong on every host.
 * Null where nothing speaks against it. keepalived adds a virtual IP without a subnet, or next to an own address, which can be a /32. Pure.
 */
export function explainUnfit(
  text: string,
  locals: readonly (SubnetAddress & { readonly device: string })[],
  gateways: readonly string[],
): string | null {
  const bits = text.includes(':') ? 128 : 32;
  const wide = locals.filter(({ address, prefixLength }) => isOf(address, bits) && prefixLength < bits - 1);
  const first = wide.find((local) => isInSubnet(text, local));
  if (first === undefined) return null;
  if (gateways.includes(text)) return 'is the gateway of this host';
  const isMain =
    wide.length === 1 || gateways.some((gateway) => isOf(gateway, bits) && isInSubnet(gateway, first));
  const isAlone = locals.filter(({ address }) => isInSubnet(address, first)).length === 1;
  if (isAlone && first.address === text && isMain) return `is the own address of ${first.device}`;
  const kind = findReserved(text, first);
  return kind === null ? null : `is the ${kind} of the network of ${first.device}`;
}

function findReserved(text: string, { address, prefixLength }: SubnetAddress): string | null {
  const cidr = `${address}/${prefixLength}`;
  const isNamed = (named: { toString(): string }) => named.toString() === ipaddr.parse(text).toString();
  if (text.includes(':')) return isNamed(ipaddr.IPv6.networkAddressFromCIDR(cidr)) ? 'address' : null;
  if (isNamed(ipaddr.IPv4.networkAddressFromCIDR(cidr))) return 'address';
  return isNamed(ipaddr.IPv4.broadcastAddressFromCIDR(cidr)) ? 'broadcast address' : null;
}

function isOf(address: string, bits: number): boolean {
  return address.includes(':') === (bits === 128);
}

/** Whether an address is in the subnet of one of this host's. An address of another family is not. Pure. */
export function isInSubnet(text: string, local: SubnetAddress): boolean {
  const address = ipaddr.parse(text);
  const subnet = ipaddr.parse(local.address);
  return address.kind() === subnet.kind() && address.match(subnet, local.prefixLength);
}
