/** Something that a person can act on: the message says what, and the way out. Everything else is a defect of the release. */
export class ReleaseError extends Error {
  override readonly name = 'ReleaseError';
}
