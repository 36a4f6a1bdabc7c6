import { type Address } from '../../../lib/address/address.ts';
import { VipnatError } from '../../../lib/text/errors.ts';
import { computeVrid } from '../../../lib/keepalived/vrid.ts';

/**
 * The virtual_router_id of each virtual IP, in their order: the ones given (one for all, or one for each), else by the
 * last byte. Pure.
 * @throws VipnatError CONFIG_INVALID when two of one family would have the same, or the number given is another one.
 */
export function assignVrids(vips: readonly Address[], given: readonly number[]): number[] {
  if (given.length > 1 && given.length !== vips.length) {
    const addresses =
      vips.length === 1 ? 'there is 1 virtual address' : `there are ${vips.length} virtual addresses`;
    throw new VipnatError(
      'CONFIG_INVALID',
      `--vrid has ${given.length} numbers, and ${addresses} (${vips.map(({ text }) => text).join(', ')}). Give one for each, in this order`,
    );
  }
  const vrids = vips.map((vip, index) => given[index] ?? given[0] ?? computeVrid(vip));
  const clash = findClash(vips, vrids);
  if (clash === null) return vrids;
  const [first, second] = clash;
  throw new VipnatError(
    'CONFIG_INVALID',
    `${first.text} and ${second.text} would both have virtual_router_id ${vrids[vips.indexOf(second)] ?? ''}, and each needs its own. ` +
      `Give them in the order of --vip: --vrid ${spread(vips, vrids).join(',')}`,
  );
}

/** IPv4 and IPv6 are told apart by their packets (RFC 9568, section 5.2.3: the id is unique per family and link). */
function findClash(vips: readonly Address[], vrids: readonly number[]): [Address, Address] | null {
  for (const [index, second] of vips.entries()) {
    const first = vips
      .slice(0, index)
      .find((vip, other) => vip.family === second.family && vrids[other] === vrids[index]);
    if (first !== undefined) return [first, second];
  }
  return null;
}

/** An example without a clash: each that is taken moves on to the next free one. */
function spread(vips: readonly Address[], vrids: readonly number[]): number[] {
  const chosen: number[] = [];
  for (const [index] of vips.entries()) {
    let vrid = vrids[index] ?? 1;
    while (chosen.includes(vrid)) vrid = (vrid % 255) + 1;
    chosen.push(vrid);
  }
  return chosen;
}
