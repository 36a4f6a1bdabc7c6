import { type Address, families, type Family, parseAddress } from '../../lib/address/address.ts';
import { parseObjectName, toObjectName } from '../../lib/services/address-name.ts';
import { type LoadBalancerDevice } from '../../lib/services/devices.ts';
import {
  type AddressRange,
  contains,
  countOfFamily,
  findIndex,
  getNth,
  mergeRanges,
  parseRange,
  toNumber,
} from '../../lib/services/ranges.ts';
import { isUsed } from './object-parts.ts';
import { type Known } from './known.ts';

/** Which addresses of devices nobody has, and nobody asks for. */
export interface TakenAddresses {
  /** The first one of a device and a family that is in none of the other ranges; null where there is none. */
  findFree(device: string, family: Family, others?: readonly AddressRange[]): Address | null;
}

type Owners = Pick<
  Known,
  'addressToPublishers' | 'addressToAskers' | 'addressToBalancers' | 'deviceBalancers' | 'virtualIps'
>;

/** A family of a device's addresses. */
interface Stock {
  readonly ranges: readonly AddressRange[];
  readonly family: Family;
  readonly count: bigint;
  taken: bigint;
  /** All before it are taken. */
  next: bigint;
}

/**
 * Keeps them with each change: a device may have 65,536 addresses, and a Service that waits for one asks every 10 seconds. Where all are taken, a
 * count says so. Else the search begins where the last one ended, or at an earlier address that was given back since.
 */
export class DeviceAddresses implements TakenAddresses {
  readonly #owners: Owners;
  readonly #taken = new Set<string>();
  readonly #deviceToStocks = new Map<string, readonly Stock[]>();

  /** It looks at the maps as they are at each call. */
  constructor(owners: Owners) {
    this.#owners = owners;
  }

  /** A device came, changed, or went (null). Who has no device pays nothing. */
  changeDevice(name: string, device: LoadBalancerDevice | null): void {
    const isFirst = this.#deviceToStocks.size === 0;
    this.#deviceToStocks.delete(name);
    if (device !== null) this.#deviceToStocks.set(name, toStocks(device));
    if (this.#deviceToStocks.size === 0) this.#taken.clear();
    else if (isFirst) this.touch(this.#listKnown());
    else for (const text of this.#taken) count(this.#deviceToStocks.get(name) ?? [], text, 1n);
  }

  /** Who has these addresses, in canonical text, may have changed. */
  touch(texts: Iterable<string>): void {
    if (this.#deviceToStocks.size === 0) return;
    for (const text of texts) {
      const isTaken = this.#isTaken(text);
      if (isTaken === this.#taken.has(text)) continue;
      if (isTaken) this.#taken.add(text);
      else this.#taken.delete(text);
      for (const stocks of this.#deviceToStocks.values()) count(stocks, text, isTaken ? 1n : -1n);
    }
  }

  findFree(device: string, family: Family, others: readonly AddressRange[] = []): Address | null {
    const stock = this.#deviceToStocks.get(device)?.find((each) => each.family === family);
    if (stock === undefined || stock.taken >= stock.count) return null;
    let isAllTaken = true;
    for (let index = stock.next; index < stock.count; index += 1n) {
      const address = getNth(stock.ranges, family, index);
      const other = others.find((range) => contains(range, address));
      if (other !== undefined) index += countAfter(address, other, stock.ranges);
      else if (!this.#taken.has(address.text)) return address;
      isAllTaken &&= other === undefined;
      if (isAllTaken) stock.next = index + 1n;
    }
    return null;
  }

  #listKnown(): string[] {
    const { addressToPublishers, addressToAskers, addressToBalancers, virtualIps } = this.#owners;
    const maps = [addressToPublishers, addressToAskers, addressToBalancers];
    return [...maps.flatMap((map) => [...map.keys()]), ...[...virtualIps.keys()].flatMap(listTexts)];
  }

  #isTaken(text: string): boolean {
    const { addressToPublishers, addressToAskers, addressToBalancers, deviceBalancers, virtualIps } =
      this.#owners;
    if (addressToPublishers.has(text) || addressToAskers.has(text)) return true;
    for (const key of addressToBalancers.get(text) ?? [])
      if (deviceBalancers.get(key)?.standing !== 'absent') return true;
    const address = parseAddress(text);
    const virtualIp = address === null ? undefined : virtualIps.get(toObjectName(address));
    return virtualIp !== undefined && isUsed(virtualIp);
  }
}

/** How many addresses come right after this one in both the other range and its own: what follows has other numbers. */
function countAfter(address: Address, other: AddressRange, ranges: readonly AddressRange[]): bigint {
  const number = toNumber(address);
  const own = ranges.find((range) => contains(range, address))?.last ?? number;
  return (own < other.last ? own : other.last) - number;
}

function listTexts(virtualIp: string): string[] {
  return [virtualIp].flatMap((name) => parseObjectName(name) ?? []).map(({ text }) => text);
}

function toStocks({ spec }: LoadBalancerDevice): Stock[] {
  const ranges = mergeRanges(spec.addresses.flatMap((text) => parseRange(text) ?? []));
  return families.map((family) => ({
    ...{ ranges, family, taken: 0n, next: 0n },
    count: countOfFamily(ranges, family),
  }));
}

/** An address is taken (1), or free again (-1). */
function count(stocks: readonly Stock[], text: string, change: bigint): void {
  const address = parseAddress(text);
  const stock = stocks.find(({ family }) => family === address?.family);
  const index = address === null || stock === undefined ? null : findIndex(stock.ranges, address);
  if (stock === undefined || index === null) return;
  stock.taken += change;
  if (change < 0n && index < stock.next) stock.next = index;
}
