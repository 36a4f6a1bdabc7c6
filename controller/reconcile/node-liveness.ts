/**
 * Which nodes' Leases live, by this process's own clock: no two clocks are compared. A Lease is over when it was not renewed for
 * its whole duration while its renewals could have been heard. So a node does not die of a pause of the controller, of a date
 * that jumps, or of an API that is away. A Lease that is seen for the first time counts as renewed at that moment.
 */
export class NodeLiveness {
  /** A Lease as the informer has it: `renewal` differs after each renewal (its `renewTime` as text). */
  heard(_node: string, _renewal: string, _durationMs: number): void {
    throw new Error('to come');
  }

  /** The Lease was deleted. */
  forget(_node: string): void {
    throw new Error('to come');
  }

  /**
   * To be called about each second with the clock's milliseconds, and whether the informer of Leases has a watch that is up. Answers
   * the nodes whose Lease is over since the last call. Of the time between two calls two seconds count at most, and none
   * without a watch.
   */
  tick(_nowMs: number, _isFollowed: boolean): readonly string[] {
    throw new Error('to come');
  }

  isLiving(_node: string): boolean {
    throw new Error('to come');
  }
}
