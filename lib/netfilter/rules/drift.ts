/** A difference between what the kernel holds of ours and what it should hold. */
export interface Drift {
  readonly kind:
    | 'missing-hook'
    | 'hook-behind-rival'
    | 'surplus-hook'
    | 'missing-chain'
    | 'missing-rule'
    | 'edited-rule'
    | 'strange-rule'
    | 'outdated-rule'
    | 'leftover-rule'
    | 'leftover-chain'
    /** What has our whole nftables table replaced: a flag, a hook, a set, a strange object. */
    | 'edited-table';
  readonly chain: string;
  /** The rule it is about, as printed or as wanted; absent where it is about a whole chain. */
  readonly rule?: string;
  /** What an edited rule of ours is known by. */
  readonly id?: string;
  /** One sentence for a person, without the table. */
  readonly message: string;
}

/** Drift that only says that an earlier decision or version wrote other rules; nobody interfered. */
export function isOutdated({ kind }: Drift): boolean {
  return kind === 'outdated-rule' || kind === 'leftover-chain' || kind === 'leftover-rule';
}
