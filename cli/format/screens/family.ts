import { type Family } from '../../../lib/address/address.ts';
import type { PlannedRules } from '../../../agent/main.ts';

/** The part of a planned state that is about one family, for `plan --family`; all of it where none is named. */
export function selectFamily(state: PlannedRules, family: Family | null): PlannedRules {
  if (family === null) return state;
  const isOfFamily = (part: { readonly family: Family }) => part.family === family;
  return {
    ...state,
    decisions: state.decisions.filter(({ vip }) => isOfFamily(vip)),
    missingSwitches: state.missingSwitches.filter(isOfFamily),
    plan: {
      tables: state.plan.tables.filter(isOfFamily),
      transactions: state.plan.transactions.filter(isOfFamily),
    },
  };
}
