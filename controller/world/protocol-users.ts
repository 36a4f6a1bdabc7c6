import { type NodeReport } from '../../lib/services/node-report.ts';
import { type Service } from '../../lib/services/services.ts';
import { listDiffering } from './list-differing.ts';

/** The keys of the Services that have a port of a protocol which one report of a node says is not supported, and another does not. Pure. */
export function listProtocolUsers(
  services: ReadonlyMap<string, Service>,
  before: NodeReport | null | undefined,
  after: NodeReport | null,
): string[] {
  const differing = listDiffering(before?.unsupported ?? [], after?.unsupported ?? []);
  if (differing.length === 0) return [];
  const users = [...services].filter(([, { spec }]) =>
    (spec.ports ?? []).some(({ protocol }) => differing.includes(protocol)),
  );
  return users.map(([key]) => key);
}
