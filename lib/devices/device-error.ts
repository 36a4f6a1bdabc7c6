/** Why a device did not answer as it should. */
export class DeviceError extends Error {
  override readonly name = 'DeviceError';
  readonly kind: DeviceErrorKind;

  constructor(kind: DeviceErrorKind, message: string, options?: ErrorOptions) {
    super(message, options);
    this.kind = kind;
  }
}

/** What came between. */
export type DeviceErrorKind =
  /** No unit that is needed answers. */
  | 'unreachable'
  /** A unit does not take the credentials. */
  | 'unauthorized'
  /** No unit is active, or both say that they are. */
  | 'no-active-unit'
  /** Another unit became active meanwhile. */
  | 'role-changed'
  /** Another user's changes wait to be applied: ours would apply them, too. */
  | 'foreign-changes'
  /** A unit says that it cannot do this. */
  | 'refused'
  /** Its answer cannot be read. */
  | 'nonsense';
