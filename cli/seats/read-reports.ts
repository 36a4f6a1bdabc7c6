import { type Lease, type NodeReport, parseNodeLease } from '../../lib/services/node-report.ts';

/** What a node's balancer said last. */
export interface HeardReport extends NodeReport {
  /** Since its Lease was renewed, by this host's date; null where it has no time. */
  readonly silentMs: number | null;
  /** Whether the Lease lasts, by this host's date. */
  readonly isLiving: boolean;
}

/** What balancers say in their Leases, in the order of the nodes' names. Pure. */
export function readReports(leases: readonly Lease[], nowMs: number): HeardReport[] {
  const reports = leases.flatMap((lease) => {
    const parsed = parseNodeLease(lease);
    if (parsed === null) return [];
    return [{ ...parsed.report, ...judgeRenewal(parsed.renewal, parsed.durationMs, nowMs) }];
  });
  return reports.sort((one, other) => (one.node < other.node ? -1 : 1));
}

/** How long ago a Lease was renewed, and whether it lasts. */
export function judgeRenewal(
  renewal: string,
  durationMs: number,
  nowMs: number,
): Pick<HeardReport, 'silentMs' | 'isLiving'> {
  const renewedAt = Date.parse(renewal);
  const silentMs = Number.isNaN(renewedAt) ? null : Math.max(0, nowMs - renewedAt);
  return { silentMs, isLiving: (silentMs ?? Infinity) <= durationMs };
}
