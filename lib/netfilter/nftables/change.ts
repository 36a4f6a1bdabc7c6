/** One step of a plan for our table: one command of nft, of which a script makes all or none. */
export interface NftChange {
  readonly kind:
    | 'add-table'
    | 'delete-table'
    | 'add-set'
    | 'delete-set'
    | 'add-chain'
    | 'flush-chain'
    | 'add-rule'
    | 'delete-chain';
  /** The chain or set it is about; empty where it is about the table. */
  readonly name: string;
  /** As nft takes it: `add rule ip vipnat prerouting …`. */
  readonly command: string;
}

/** The order in which a script can make changes: what refers to an object comes after what creates it and before what deletes it. */
export const changeOrder: readonly NftChange['kind'][] = [
  'delete-table',
  'add-table',
  'add-set',
  'add-chain',
  'flush-chain',
  'add-rule',
  'delete-chain',
  'delete-set',
];
