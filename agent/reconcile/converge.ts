import { VipnatError } from '../../lib/text/errors.ts';
import { type Kernel } from '../../lib/kernel/port.ts';
import { applyPlan } from './look.ts';
import { describeDrift, type Plan } from '../../lib/netfilter/plan/table-plan.ts';

/** A foreign write between our look and ours makes a transaction fail; that often in a row it is no accident. */
const maxTries = 5;

/**
 * Looks and writes until a look finds nothing to do. Answers the first plan: what was wrong.
 * @throws VipnatError of the last failed write, or RULES_NOT_CONVERGING when writes succeed and do not last.
 */
export async function converge(kernel: Kernel, lookForPlan: () => Promise<Plan>): Promise<Plan> {
  const first = await lookForPlan();
  let plan = first;
  for (let attempt = 1; plan.transactions.length > 0; attempt += 1) {
    if (attempt > maxTries) throw toNotConverging(plan);
    await applyPlan(kernel, plan).catch((error: unknown) => {
      if (attempt === maxTries || !isRace(error)) throw error;
    });
    plan = await lookForPlan();
  }
  return first;
}

/** The tool refused the transaction: most likely what it deletes is gone already, so look again. */
export function isRace(error: unknown): boolean {
  return error instanceof VipnatError && error.code === 'TOOL_FAILED';
}

/** The rules were written and are not there: somebody else writes them differently all the time. */
export function toNotConverging(plan: Plan): VipnatError {
  const [first = 'unknown', ...more] = describeDrift(plan);
  const count = more.length === 0 ? '' : ` and ${more.length} more`;
  return new VipnatError(
    'RULES_NOT_CONVERGING',
    `vipnat wrote its rules, but they do not stay: ${first}${count}. Find the other program that changes them`,
    { details: describeDrift(plan).join('\n') },
  );
}
