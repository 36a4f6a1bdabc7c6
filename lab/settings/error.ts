/** Something that a person can act on: the message says what, and the way out. Everything else is a defect of the lab. */
export class LabError extends Error {
  override readonly name = 'LabError';
}
