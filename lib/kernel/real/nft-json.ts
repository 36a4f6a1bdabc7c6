import { VipnatError } from '../../text/errors.ts';

/**
 * The elements of the `nftables` array that `nft -j list …` printed, without metainfo.
 * @throws VipnatError TOOL_OUTPUT_UNEXPECTED
 */
export function parseObjects(stdout: string): Record<string, unknown>[] {
  try {
    const { nftables } = JSON.parse(stdout) as { nftables: Record<string, unknown>[] };
    return nftables.filter((object) => !('metainfo' in object));
  } catch (error) {
    throw new VipnatError('TOOL_OUTPUT_UNEXPECTED', 'nft -j printed something other than its JSON', {
      cause: error,
      details: stdout.slice(0, 2000),
    });
  }
}
