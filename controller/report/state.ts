import { type QueueStatistics } from '../../lib/control/keyed-queue.ts';
import { type CarriedOut } from '../reconcile/carry-out.ts';
import { type World } from '../world/world.ts';

/** How a controller does: what health and metrics say. */
export interface ControllerState {
  readonly isLeading: boolean;
  /** Who leads, as far as is known; null before anything is. */
  readonly holder: string | null;
  /** Each kind of objects that it reads while it leads, to whether it is not lost. */
  readonly kinds: ReadonlyMap<string, boolean>;
  /** Of the term; null while it does not lead, or before all objects are known. */
  readonly world: World | null;
  readonly statistics: QueueStatistics | null;
  /** Objects that cannot be read, and are left out. */
  readonly unreadable: readonly { readonly kind: string; readonly object: string }[];
  /** Writes since the start, by what became of them. */
  readonly writes: ReadonlyMap<CarriedOut['result'], number>;
}
