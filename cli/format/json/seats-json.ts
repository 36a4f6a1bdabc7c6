import { type SeatsView } from '../../seats/view-seats.ts';
import { toPrintableJson } from '../../../lib/text/printable.ts';

/** What `vipnat seats --json` prints. */
export function formatSeatsJson({ seats, nodes, drained }: SeatsView): string {
  const document = {
    version: 1,
    seats: seats.map(({ seat, pool, index, anchor, vrid, addresses, holders, nodes: candidates }) => ({
      seat,
      pool,
      index,
      anchor,
      vrid,
      addresses,
      holders,
      nodes: candidates,
    })),
    nodes: nodes.map(({ node, mode, silentMs, inUse, unheld }) => ({
      node,
      mode,
      silentSeconds: silentMs === null ? null : silentMs / 1000,
      addressesInUse: inUse,
      cannotHold: Object.entries(unheld).map(([name, why]) => ({ name, why })),
    })),
    drained: [...drained].flatMap(([pool, all]) => all.map(({ node, seat }) => ({ pool, node, seat }))),
  };
  return `${toPrintableJson(document, 2)}\n`;
}
