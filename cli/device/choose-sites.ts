import { type Address, type Family } from '../../lib/address/address.ts';
import { documentationSites, type Sites } from '../../lib/devices/conformance/target.ts';
import { type AddressRange, countOfFamily, getNth, mergeRanges } from '../../lib/services/ranges.ts';
import { invalid } from './read-yaml.ts';

/** As many as the check with the most of them has, and those that change beside. */
const most = 30n;

/** Fewer would leave checks without an address of their own. */
const least = 5;

/**
 * Where the suite may put balancers: at the addresses that the device has for Services, or at those for documentation.
 * @throws VipnatError DEVICE_SETTINGS_INVALID where it has too few
 */
export function chooseSites(addresses: readonly AddressRange[], ports: readonly number[] | null): Sites {
  const sites = { ...documentationSites, ...(ports === null ? {} : { ports }) };
  if (addresses.length === 0) return sites;
  const ranges = mergeRanges(addresses);
  const [ipv4, ipv6] = [take(ranges, 'ipv4'), take(ranges, 'ipv6')];
  if (ipv4.length < least)
    throw invalid(`spec.addresses has ${ipv4.length} addresses of IPv4. The suite needs at least ${least}`);
  return { ...sites, ipv4, ipv6 };
}

function take(ranges: readonly AddressRange[], family: Family): Address[] {
  const count = countOfFamily(ranges, family);
  return Array.from({ length: Number(count < most ? count : most) }, (_, at) =>
    getNth(ranges, family, BigInt(at)),
  );
}
