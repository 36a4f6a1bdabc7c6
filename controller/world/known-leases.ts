import { put } from './multi-map.ts';
import { type HeardLease } from './world.ts';

/** The Leases of nodes, whatever they say. */
export class KnownLeases {
  readonly all = new Map<string, HeardLease>();
  /** Nodes whose Lease was heard once, and not renewed since: nobody knows how old it is. */
  readonly unproven = new Set<string>();

  /** One was heard, or is gone (null). Answers whether another node is unproven now. */
  change(name: string, lease: HeardLease | null, isProven: boolean): boolean {
    const node = (lease ?? this.all.get(name))?.node ?? '';
    const { size } = this.unproven;
    if (isProven) this.unproven.delete(node);
    else this.unproven.add(node);
    put(this.all, name, lease);
    return this.unproven.size !== size;
  }
}
