import { createHash } from 'node:crypto';
import { type Address, type Family } from '../../lib/address/address.ts';
import { type AddressRange, countOfFamily, getNth } from '../../lib/services/ranges.ts';

/**
 * All addresses of a family, each once, in an order that a seed chooses: so Services begin at different ones, and the same Service
 * at the same one whoever decides. Only the addresses that are asked for are computed: a /64 costs no more than a /24.
 */
export function* walkAddresses(
  ranges: readonly AddressRange[],
  family: Family,
  seed: string,
): Generator<Address> {
  const count = countOfFamily(ranges, family);
  if (count === 0n) return;
  const digest = createHash('sha256').update(`${family} ${seed}`).digest('hex');
  const start = BigInt(`0x${digest.slice(0, 32)}`) % count;
  const stride = findStride(BigInt(`0x${digest.slice(32)}`) % count, count);
  for (let step = 0n; step < count; step += 1n) yield getNth(ranges, family, (start + step * stride) % count);
}

/** A number below 2^32 that a text chooses. */
export function hashToNumber(text: string): number {
  return createHash('sha256').update(text).digest().readUInt32BE();
}

/** Steps of a number without a common divisor come to every index. */
function findStride(from: bigint, count: bigint): bigint {
  let stride = from === 0n ? 1n : from;
  while (findCommonDivisor(stride, count) !== 1n) stride += 1n;
  return stride;
}

function findCommonDivisor(one: bigint, other: bigint): bigint {
  let [a, b] = [one, other];
  while (b !== 0n) [a, b] = [b, a % b];
  return a;
}
