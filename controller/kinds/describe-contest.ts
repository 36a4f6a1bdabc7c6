import { shorten } from './shorten.ts';

/** That what vipnat writes does not stay, for people: who else writes, by the names of field managers, if any is known. */
export function describeContest(managers: readonly string[]): string {
  const who = managers.length === 0 ? 'Another program' : `Another program (${shorten(managers)})`;
  return `${who} undoes what vipnat writes into this object. vipnat writes it once a minute.`;
}
