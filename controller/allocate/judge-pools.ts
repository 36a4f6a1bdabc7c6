import { type AddressPool } from '../../lib/services/objects.ts';

/** A pool, and why nothing is given of it. */
export interface JudgedPool {
  readonly pool: AddressPool;
}
