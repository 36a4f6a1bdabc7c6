/** Something did not come in time, or a measurement says nothing: the machine may have had too much else to do, so a second try may pass. */
export class WaitedTooLong extends Error {
  override name = 'WaitedTooLong';
}
