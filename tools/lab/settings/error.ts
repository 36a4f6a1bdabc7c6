/** Something that a person can act on: the message says what, and the way out. Everything else is a defect of the lab. */
export class LabError extends Error {
  override readonly name: string = 'LabError';
}

/** That a lab is too slow, or hangs. What runs tests takes it for no verdict, by its name: see test/support/jest/waiting.ts. */
export class WaitedTooLong extends LabError {
  override readonly name: string = 'WaitedTooLong';
}
