import { type SickHost } from './sick-host.ts';

export interface Fault {
  /** What doctor has to call it. */
  readonly code: string;
  readonly seed: (host: SickHost) => Promise<unknown>;
  /** Does what comments of the remedy say, as a person would who has understood them. */
  readonly follow?: (host: SickHost, remedy: readonly string[]) => Promise<unknown>;
  /** Takes back what the remedy leaves alone. */
  readonly after?: (host: SickHost) => Promise<unknown>;
}

/** Faults that a host can have at the same time. */
export interface Illness {
  readonly name: string;
  readonly faults: readonly Fault[];
  /** What doctor is asked beside the VIP. */
  readonly args?: readonly string[];
}
