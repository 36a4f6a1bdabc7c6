import { type ForwardChain } from '../../../lib/kernel/port.ts';
import { toPrintableJson } from '../../../lib/text/printable.ts';
import { describeBalancer } from './balancer-json.ts';
import { describeConsequence } from '../screens/consequence.ts';
import { type UnreadText } from '../../../lib/kernel/real/unread.ts';
import { isUsed } from '../../../lib/services/host-balancer.ts';
import type { ServicesCheck } from '../../../balancer/main.ts';
import { toHostAnswer } from '../../../agent/report/host-answer.ts';
import type { HostLook } from '../../../agent/main.ts';

/** What a check finds beside drift. */
export interface Besides {
  /** Chains of others that drop what is balanced. */
  readonly drops: readonly Pick<ForwardChain, 'table' | 'name'>[];
  /** What could not be read. */
  readonly unread: readonly UnreadText[];
  /** What is said of Services on this host. */
  readonly services: ServicesCheck;
}

/**
 * `check --json`, version 1: what `status --json` says of the host, then each difference with what it means for people, and
 * what of others drops what is balanced. Ends with a newline.
 */
export function formatCheckJson(
  assessment: HostLook,
  { drops, unread, services }: Besides,
  node: string,
): string {
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
  const balancer = isUsed(services.host)
    ? { ...describeBalancer(services.host), drift: services.drift, unread: services.unread }
    : null;
  const besides = { foreignDrops, unread, balancer };
  const answer = { ...toHostAnswer(assessment, node), drift, ...besides };
  return `${toPrintableJson(answer, 2)}\n`;
}
