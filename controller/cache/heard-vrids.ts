import { type Family, parseAddress } from '../../lib/address/address.ts';
import { type HeardVrid, type NodeReport } from '../../lib/services/node-report.ts';
import { type Seat } from '../../lib/services/objects.ts';

/** Which VRIDs nodes hear from hosts that hold none of the cluster's seats. */
export class HeardVrids {
  readonly #keys = new Set<string>();
  readonly #seatToHeard = new Map<string, (HeardVrid & Pick<NodeReport, 'node'>)[]>();

  constructor(reports: Iterable<NodeReport>) {
    const inOrder = [...reports].sort((one, other) => (one.node < other.node ? -1 : 1));
    for (const { node, heard = [] } of inOrder)
      for (const one of heard) {
        this.#keys.add(`${parseAddress(one.from)?.family ?? ''} ${one.vrid}`);
        if (one.seat === null) continue;
        const known = this.#seatToHeard.get(one.seat);
        if (known === undefined) this.#seatToHeard.set(one.seat, [{ ...one, node }]);
        else known.push({ ...one, node });
      }
  }

  /** Whether anybody uses it, on whatever network of the nodes. */
  has(family: Family, vrid: number): boolean {
    return this.#keys.has(`${family} ${vrid}`);
  }

  /** Who uses the VRID of a pool's seat on the network of its adverts, each with the first node that hears it: clauses. */
  listSharing(pool: string, { index, vrid }: Pick<Seat, 'index' | 'vrid'>): string[] {
    const heard = (this.#seatToHeard.get(`${pool}/${index}`) ?? []).filter((one) => one.vrid === vrid);
    const firsts = new Map(heard.toReversed().map((one) => [one.from, one]));
    return [...firsts.values()]
      .reverse()
      .map(({ from, device, node }) => `${from} (${node} detects it on ${device})`);
  }
}
