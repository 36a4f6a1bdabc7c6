import { type Clock } from '../control/clock.ts';
import { type Random } from '../control/random.ts';
import { type VipnatError } from '../text/errors.ts';
import { type ApiObject } from './api-object.ts';
import { type Change } from './object-store.ts';
import { type Resource } from './resources.ts';
import { type ApiRoute, type Connection } from './route.ts';
import { type Unreadable } from './errors.ts';

/** What a follower needs of the world, and its listeners. */
export interface InformerOptions<T extends ApiObject> {
  readonly resource: Resource<T>;
  readonly route: ApiRoute;
  readonly clock: Clock;
  readonly random: Random;
  /** What differs from before, and all objects: after each list, even when nothing does, and after each event that changes something. */
  readonly onChanges: (changes: readonly Change<T>[], objects: ReadonlyMap<string, T>) => void;
  /** An object cannot be read, told once for each field that is not as it should be. All others are followed. */
  readonly onUnreadable: (unreadable: Unreadable) => void;
  /** Every server has been asked, and none has done: for as long as that goes on, after each attempt. */
  readonly onLost: (error: VipnatError) => void;
  /** A watch is up and has lasted, on this server. */
  readonly onFollowed: (connection: Connection) => void;
}
