import { type ForwardChain } from '../../../lib/kernel/port.ts';
import { toPrintableJson } from '../../../lib/text/printable.ts';
import { type UnreadText } from '../../../agent/observe/unread.ts';
import { type Assessment } from '../../../agent/decide/assess.ts';
import { describeConsequence } from '../screens/consequence.ts';
import { toHostAnswer } from './json.ts';

/** What a check finds beside drift. */
export interface Besides {
  /** Chains of others that drop what is balanced. */
  readonly drops: readonly Pick<ForwardChain, 'table' | 'name'>[];
  /** What could not be read. */
  readonly unread: readonly UnreadText[];
}

/**
 * `check --json`, version 1: what `status --json` says of the host, then each difference with what it means for people, and
 * the chains of others that drop what is balanced. Ends with a newline.
 */
export function formatCheckJson(assessment: Assessment, { drops, unread }: Besides, node: string): string {
  const { plan, decisions } = assessment;
  const drift = plan.tables.flatMap(({ family, dialect, table, drift: parts }) =>
    parts.map((part) => ({
      family,
      backend: dialect,
      table,
      chain: part.chain,
      kind: part.kind,
      message: part.message,
      consequence: describeConsequence(part, decisions),
    })),
  );
  const foreignDrops = drops.map(({ table, name }) => ({ table, chain: name }));
  return `${toPrintableJson({ ...toHostAnswer(assessment, node), drift, foreignDrops, unread }, 2)}\n`;
}
