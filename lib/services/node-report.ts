/**
 * What a balancer says of its node, in the annotations of the Lease `vipnat-lb-NODE`. One small object for a node, whatever the
 * number of Services: it says up to which version of each kind the kernel has all that the API had.
 */
import { reportAnnotations } from './names.ts';

/** Kinds whose versions a balancer reports. Versions of one kind can be compared as numbers (Kubernetes, KEP 5504). */
export type ReportedKind = 'virtualips' | 'services' | 'endpointslices';

/** How a node balances: `direct` by its own table, `kube-proxy` by that one's; `none`: it can serve no address. */
export type NodeMode = 'direct' | 'kube-proxy' | 'none';

/** What one balancer has done. When that was is for who reads it: clocks of nodes differ. */
export interface NodeReport {
  readonly node: string;
  readonly programmed: Readonly<Partial<Record<ReportedKind, string>>>;
  /** The seats this node holds: `POOL/INDEX`. */
  readonly seats: readonly string[];
  readonly mode: NodeMode;
  /** Addresses that another host on the network answers for. */
  readonly inUse: readonly string[];
}

/** The name of a node's Lease. */
export function toLeaseName(node: string): string {
  return `vipnat-lb-${node}`;
}

/** The annotations that say it. */
export function toAnnotations({ programmed, seats, mode, inUse }: NodeReport): Record<string, string> {
  return {
    [reportAnnotations.programmed]: JSON.stringify(programmed),
    [reportAnnotations.seats]: JSON.stringify(seats),
    [reportAnnotations.mode]: mode,
    [reportAnnotations.inUse]: JSON.stringify(inUse),
  };
}

/** Whether all changes up to a version are programmed. */
export function isProgrammed(report: NodeReport, kind: ReportedKind, version: string): boolean {
  const programmed = report.programmed[kind];
  return programmed !== undefined && BigInt(programmed) >= BigInt(version);
}
