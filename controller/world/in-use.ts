import { type NodeReport } from '../../lib/services/node-report.ts';
import { parseAddress } from '../../lib/address/address.ts';
import { toObjectName } from '../../lib/services/address-name.ts';
import { listDiffering } from './list-differing.ts';

/** The names of the VirtualIPs whose addresses one report of a node finds in use elsewhere, and another does not. Pure. */
export function listOtherInUse(before: NodeReport | undefined, after: NodeReport | null): string[] {
  const differing = listDiffering(before?.inUse ?? [], after?.inUse ?? []);
  return differing.flatMap((text) => parseAddress(text) ?? []).map(toObjectName);
}
