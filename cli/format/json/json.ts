import { toHostAnswer } from '../../../agent/report/host-answer.ts';
import { toolName } from '../../../lib/kernel/tools/tool-name.ts';
import { toPrintableJson } from '../../../lib/text/printable.ts';
import type { PlannedRules } from '../../../agent/main.ts';

/** `plan --json`, with what the balancer of this host would run, or null. Ends with a newline. */
export function formatJson(state: PlannedRules, node: string, balancer: object | null = null): string {
  const transactions = state.plan.transactions.map(({ family, dialect, input }) => ({
    tool: toolName(family, dialect, 'restore'),
    family,
    input,
  }));
  return `${toPrintableJson({ ...toHostAnswer(state, node), transactions, balancer }, 2)}\n`;
}
