import { VipnatError } from '../../text/errors.ts';
import { type UnreadRules } from '../port.ts';

/** What came of a reading that may fail. */
export interface Attempt<T> {
  /** Null where it failed. */
  readonly found: T | null;
  readonly unread: readonly UnreadRules[];
}

/** Which rules a reading is to tell. */
export type RulesToRead = Pick<UnreadRules, 'family' | 'dialect' | 'tables'>;

/** Awaits a reading of rules. A VipnatError is told as what could not be read; anything else is a bug, and rejects. */
export async function attempt<T>(reading: Promise<T>, rules: RulesToRead): Promise<Attempt<T>> {
  try {
    return { found: await reading, unread: [] };
  } catch (error) {
    return { found: null, unread: [toUnread(rules, error)] };
  }
}

/** The rules that an error keeps from being read. Throws what is no VipnatError. */
export function toUnread({ family, dialect, tables }: RulesToRead, error: unknown): UnreadRules {
  if (!(error instanceof VipnatError)) throw error;
  const { code, message, details } = error;
  return { family, dialect, tables, code, message, ...(details === undefined ? {} : { details }) };
}
