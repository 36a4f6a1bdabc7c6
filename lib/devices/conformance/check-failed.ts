/** The driver does not do what it promises. */
export class CheckFailed extends Error {
  override readonly name = 'CheckFailed';
}
