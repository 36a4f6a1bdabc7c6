import { toPrintableJson } from '../../../lib/text/printable.ts';
import { type ServiceDetails } from '../../services/api-services.ts';
import { listNodes } from '../../services/list-nodes.ts';
import { type ClusterView, type ServicesView, type ServiceView } from '../../services/services-view.ts';

/** `vipnat services --json`, version 1: fields are added, never renamed. Ends with a newline. */
export function formatServicesJson(view: ServicesView): string {
  const document = { version: 1, services: view.services.map(describe), ...describeCluster(view) };
  return `${toPrintableJson(document, 2)}\n`;
}

/** `vipnat services NAMESPACE/NAME --json`, version 1: the same of one Service, and more. Ends with a newline. */
export function formatServiceJson({ service, view, events }: ServiceDetails): string {
  const document = {
    version: 1,
    service: {
      ...describe(service),
      conditions: service.service.status?.conditions ?? [],
      endpoints: service.pods.map(({ address, ports, state, isServingLast, gate, node, draining }) => ({
        ...{ address, ports: ports === '' ? [] : ports.split(',').map(Number), state },
        ...{
          serving: state === 'ready' || isServingLast,
          waitingForGate: gate !== null,
          gate,
          node,
          draining,
        },
      })),
      programmed: listNodes(service, view.reports).map(({ node, report, isProgrammed }) => ({
        ...{ node, living: report?.isLiving === true, programmed: isProgrammed },
      })),
    },
    events,
    ...describeCluster(view),
  };
  return `${toPrintableJson(document, 2)}\n`;
}

function describe({ service, state, reason, why, since, addresses, pods, devices }: ServiceView): object {
  const { namespace, name } = service.metadata;
  const count = (wanted: string) => pods.filter((pod) => pod.state === wanted).length;
  const waitingForGates = pods.filter(({ gate }) => gate !== null).length;
  return {
    ...{ namespace, name, state, reason, why, since },
    addresses: addresses.map(({ address, isPublished, seat, virtualIp, holders, nodes, device }) => ({
      ...{
        address,
        published: isPublished,
        pool: virtualIp?.spec.pool ?? null,
        seat,
        holders,
        nodes,
        device,
      },
    })),
    devices: devices.map(({ name: device, view, draining }) => ({
      ...{ name: device, exists: view !== null },
      draining: draining.map(({ member, since: from, sessions }) => ({ member, since: from, sessions })),
    })),
    pods: { ready: count('ready'), ending: count('ending'), notReady: count('not ready'), waitingForGates },
  };
}

function describeCluster({ controller, reports, pools, devices }: ClusterView): object {
  const { isLeading, holder, silentMs } = controller;
  return {
    controller: { leading: isLeading, holder, silentSeconds: toSeconds(silentMs) },
    pools: pools.map(({ metadata, status }) => ({
      ...{ name: metadata.name, conditions: status?.conditions ?? [] },
    })),
    devices: devices.map(({ name, driver, units, balancers, draining, foreignChanges, ...condition }) => ({
      ...{ name, driver, ready: condition.isReady, reason: condition.reason, why: condition.why },
      since: condition.since,
      units: units.map(({ unit, role, isInSync, why }) => ({ unit, role, inSync: isInSync ?? null, why })),
      ...{ services: balancers, draining, foreignChanges },
    })),
    nodes: reports.map(({ node, mode, isLiving, silentMs: ms, seats, inUse }) => ({
      ...{ node, mode, living: isLiving, silentSeconds: toSeconds(ms), seats, addressesInUse: inUse },
    })),
  };
}

function toSeconds(ms: number | null): number | null {
  return ms === null ? null : ms / 1000;
}
