import { parseAddress } from '../../lib/address/address.ts';
import { parseObjectName } from '../../lib/services/address-name.ts';
import { nameEarlyOwner } from '../../lib/services/early-slices.ts';
import { readGateTypes } from '../../lib/services/gate-types.ts';
import { finalizer, loadBalancerClass } from '../../lib/services/names.ts';
import { type VirtualIp } from '../../lib/services/objects.ts';
import { type EndpointSlice, type Service, serviceNameLabel } from '../../lib/services/services.ts';
import { readReports } from '../seats/read-reports.ts';
import { judgeService } from './judge-service.ts';
import { addDrains, addGates, chooseFamily, listPods } from './list-pods.ts';
import {
  type AddressView,
  type ClusterView,
  type ServiceObjects,
  type ServicesView,
  type ServiceView,
} from './services-view.ts';
import { viewController } from './view-controller.ts';
import { findDeviceOf, listDevicesOf, viewDevice } from './view-devices.ts';
import { findWaiting } from './waiting-pods.ts';

/** How Services do, by what the API has; nodes and controller count as long as their Leases last by this host's date. Pure. */
export function viewServices(objects: ServiceObjects, nowMs: number): ServicesView {
  const { services, slices, earlySlices, virtualIps, pools, devices, leases } = objects;
  const reports = readReports(leases, nowMs);
  const seen = devices.map(viewDevice).sort((one, other) => (one.name < other.name ? -1 : 1));
  const cluster = { reports, pools, devices: seen, controller: viewController(leases, nowMs) };
  const uidToVirtualIps = groupByUser(virtualIps);
  const keyToSlices = Map.groupBy(slices, nameOwner);
  const keyToEarly = Map.groupBy(earlySlices, nameEarlyOwner);
  const waiting = Map.groupBy(
    findWaiting(objects.pods, readGateTypes(leases), nowMs),
    ({ pod }) => pod.split('/')[0] ?? '',
  );
  const views = services.map((service): ServiceView | null => {
    const key = `${service.metadata.namespace}/${service.metadata.name}`;
    const given = uidToVirtualIps.get(service.metadata.uid) ?? [];
    const ofDevices = listDevicesOf(service, devices);
    if (ofDevices.length === 0 && !isOurs(service, given)) return null;
    const own = keyToSlices.get(key) ?? [];
    const addresses = listAddresses(service, given, cluster).map((one) => ({
      ...one,
      device: findDeviceOf(one.address, { service, devices }),
    }));
    const early = keyToEarly.get(key) ?? [];
    const gates = { early, waiting: waiting.get(service.metadata.namespace) ?? [] };
    const candidates = listCandidates(addresses, reports);
    const listed = addGates(listPods(chooseFamily(own)), { ...gates, candidates });
    const pods = addDrains(listed, key, reports);
    const parts = { service, key, addresses, pods, devices: ofDevices };
    const facts = { ...parts, slices: own, earlySlices: early };
    return { ...facts, ...judgeService(facts, cluster) };
  });
  const ours = views.filter((view) => view !== null);
  return { ...cluster, services: ours.sort((one, other) => (one.key < other.key ? -1 : 1)) };
}

/** Whether something does not work: of a Service, of a device, or of what gives Services their addresses. */
export function isInTrouble({ services, devices, controller }: ServicesView): boolean {
  const isUnready = devices.some(({ isReady }) => isReady !== true);
  return (
    !controller.isLeading || isUnready || services.some(({ state }) => !['ready', 'leaving'].includes(state))
  );
}

/**
 * By class, or by what the controller has done to it. One without a class and without an address waits for whoever serves such
 * Services, and may wait for us.
 */
function isOurs({ metadata, spec, status }: Service, given: readonly VirtualIp[]): boolean {
  if (given.length > 0 || metadata.finalizers?.includes(finalizer) === true) return true;
  if (spec.type !== 'LoadBalancer') return false;
  const ownClass = spec.loadBalancerClass ?? '';
  if (ownClass !== '') return ownClass === loadBalancerClass;
  return (status?.loadBalancer?.ingress ?? []).length === 0;
}

function groupByUser(virtualIps: readonly VirtualIp[]): Map<string, VirtualIp[]> {
  const uidToVirtualIps = new Map<string, VirtualIp[]>();
  for (const virtualIp of virtualIps) {
    for (const { uid } of [...virtualIp.spec.services, ...virtualIp.spec.leaving]) {
      const known = uidToVirtualIps.get(uid);
      if (known === undefined) uidToVirtualIps.set(uid, [virtualIp]);
      else known.push(virtualIp);
    }
  }
  return uidToVirtualIps;
}

function nameOwner({ metadata }: EndpointSlice): string {
  return `${metadata.namespace}/${metadata.labels?.[serviceNameLabel] ?? ''}`;
}

/** The living nodes that may hold one of these addresses. Gates wait for them. */
function listCandidates(
  addresses: readonly AddressView[],
  reports: ClusterView['reports'],
): ClusterView['reports'] {
  const names = new Set(addresses.flatMap(({ nodes }) => nodes));
  return reports.filter(({ node, isLiving, mode }) => isLiving && mode !== 'none' && names.has(node));
}

/** Those of its status first, in their order. */
function listAddresses(
  { status }: Service,
  given: readonly VirtualIp[],
  { reports, pools }: ClusterView,
): Omit<AddressView, 'device'>[] {
  const published = (status?.loadBalancer?.ingress ?? []).flatMap(({ ip, hostname }) => {
    const text = ip ?? hostname ?? '';
    return text === '' ? [] : [parseAddress(text)?.text ?? text];
  });
  const toText = ({ metadata: { name } }: VirtualIp) => parseObjectName(name)?.text ?? name;
  return [...new Set([...published, ...given.map(toText)])].map((address) => {
    const virtualIp = given.find((one) => toText(one) === address) ?? null;
    const base = { address, isPublished: published.includes(address), virtualIp };
    if (virtualIp === null) return { ...base, seat: null, holders: [], nodes: [] };
    const { pool, seat: index } = virtualIp.spec;
    const seat = `${pool}/${index}`;
    const holders = reports.filter(({ isLiving, seats }) => isLiving && seats.includes(seat));
    const seats = pools.find(({ metadata }) => metadata.name === pool)?.status?.seats ?? [];
    return {
      ...base,
      seat,
      holders: holders.map(({ node, mode }) => ({ node, mode })),
      nodes: seats.find((one) => one.index === index)?.nodes ?? [],
    };
  });
}
