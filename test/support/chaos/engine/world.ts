import type { fc } from '../../random/fc.ts';
import type { Argument, Step } from './walk.ts';

export interface Fault {
  readonly name: string;
  /** How often it is drawn, in proportion to the others'. */
  readonly weight: number;
  /** What its steps can say beside their name and pause. */
  readonly arguments: fc.Arbitrary<Readonly<Record<string, Argument>>>;
}

/**
 * A place where faults happen and an oracle judges. Complaints are sentences for a person; none means that all is right.
 */
export interface World {
  /**
   * Makes one fault happen, and does not wait for what becomes of it. A step that makes no sense now (who is to be revived
   * lives) does nothing. Rejects only when the world itself fails, which is no finding.
   */
  perform(step: Step): Promise<void>;
  /** Ends whatever does not end by itself: held locks, hanging tools, full folders; who shall live is started again. */
  calm(): Promise<void>;
  /** What is not as it has to be in quiet; to be asked again for as long as things may still settle. */
  judge(): Promise<readonly string[]>;
  /** Complaints about what must hold at every moment, since this was last asked for. */
  takeBreaches(): readonly string[];
  /** Ends it in good order, with everything removed as a person would; answers what that left behind. */
  finish(): Promise<readonly string[]>;
  /** What a person needs to see of it after a complaint: the end of the logs. */
  describe(): string;
  /** Removes it, in whatever state it is. */
  close(): Promise<void>;
}

/** A kind of world, from which walks are drawn and on which they are run. */
export interface WorldKind {
  readonly name: string;
  readonly faults: readonly Fault[];
  /** Opens a world in which all is right. */
  open(): Promise<World>;
}
