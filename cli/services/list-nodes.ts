import { isProgrammed } from '../../lib/services/node-report.ts';
import { type HeardReport } from '../seats/read-reports.ts';
import { type ServiceView } from './services-view.ts';

/** A node that may hold an address of a Service, or does. */
export interface NodeOfService {
  readonly node: string;
  /** What its balancer said last; null where it has none. */
  readonly report: HeardReport | null;
  /** Whether it has said that its kernel has all of the Service, as the API has it now. It says so within 10 s. */
  readonly isProgrammed: boolean;
}

/** The nodes on which a Service's addresses depend, in the order in which they may hold the first one. Pure. */
export function listNodes(
  { service, addresses, slices, earlySlices }: ServiceView,
  reports: readonly HeardReport[],
): NodeOfService[] {
  const names = addresses.flatMap(({ nodes, holders }) => [...nodes, ...holders.map(({ node }) => node)]);
  const hasAll = (report: HeardReport) =>
    isProgrammed(report, 'services', service.metadata.resourceVersion) &&
    slices.every(({ metadata }) => isProgrammed(report, 'endpointslices', metadata.resourceVersion)) &&
    earlySlices.every(({ metadata }) => isProgrammed(report, 'earlyslices', metadata.resourceVersion)) &&
    addresses.every(
      ({ virtualIp }) =>
        virtualIp === null || isProgrammed(report, 'virtualips', virtualIp.metadata.resourceVersion),
    );
  return [...new Set(names)].map((node) => {
    const report = reports.find((one) => one.node === node) ?? null;
    return { node, report, isProgrammed: report?.isLiving === true && hasAll(report) };
  });
}
