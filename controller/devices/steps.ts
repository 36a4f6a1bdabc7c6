/**
 * The next step of a Service that a device is to have, or has something of: the device's finalizer, then its address in the status once the device
 * serves it; and the reverse. What is done on the device itself, `controller/devices/` does and says.
 *
 * A finalizer names its device. So the Service alone says, after any crash, where something of it may be; and one that moves has two until
 * the device before has nothing of it any more.
 */
import {
  type Kind,
  type Step,
  nothing,
  toStep,
  keepFinalizer,
  patchMetadata,
  toJson,
  patchStatus,
  type Json,
  type StepEvent,
} from '../step.ts';
import { apiGroup, apiVersion, type Condition, addressReady, formerFinalizer } from '../../lib/api/vipnat.ts';
import type { ClusterView } from '../cache/cache.ts';
import {
  type LoadBalancerDevice,
  listCurrentOwners,
  chooseDevice,
  toDeviceFinalizer,
} from '../../lib/api/device.ts';
import {
  type WantedCondition,
  setCondition,
  findCondition,
  findBalancer,
  getIngress,
  isDeleted,
} from '../cache/parts.ts';
import type { Service, Ingress } from '../../lib/api/service.ts';
import type { DeviceBalancer } from '../cache/known.ts';

/** `nothing` for a Service of which no device has, or is to have, anything. */
export function nextDeviceStep(service: Service, view: ClusterView): Step {
  const chosen = chooseDevice(service, view.settings.defaultDevice);
  const seatHolders = listCurrentOwners(service);
  if (chosen !== null) return serve(service, chosen, seatHolders, view);
  return seatHolders.length === 0 ? nothing : release(service, seatHolders, view);
}

/** Whether an address of a Service's status is a device's: connections have another target there, and `ipMode` says so to kube-proxy. */
export function isOfDevice({ ipMode }: Ingress): boolean {
  return ipMode === 'Proxy';
}

/** What comes next is said by the device's writer, or by the API. */
const waitForDevice: Step = { does: 'wait', waitsFor: 'time', why: 'a device does its part', untilMs: null };

function serve(service: Service, name: string, seatHolders: readonly string[], view: ClusterView): Step {
  const device = view.devices.get(name);
  // Where there are no devices at all, such a class may be anybody's.
  if (view.devices.size === 0 && seatHolders.length === 0) return nothing;
  if (device === undefined) return lackDevice(service, `There is no LoadBalancerDevice ${name}.`, view);
  if (!seatHolders.includes(name)) return hold(service, device, view);
  const balancer = findBalancer(view, name, service);
  if (balancer === undefined) return waitForDevice;
  const left = seatHolders.filter((each) => each !== name && isAbsent(service, each, view));
  const step = publish(service, balancer, view) ?? dropFormer(service, balancer);
  return step ?? dropOwners(service, left) ?? waitForDevice;
}

/** A device that goes gets no more. */
function hold(service: Service, device: LoadBalancerDevice, view: ClusterView): Step {
  const { name } = device.metadata;
  if (isDeleted(device)) return lackDevice(service, `The LoadBalancerDevice ${name} is being deleted.`, view);
  const known = service.metadata.finalizers ?? [];
  return toStep(patchMetadata('Service', service, { finalizers: [...known, toDeviceFinalizer(name)] }));
}

/** Once all devices have nothing of it: its status, then the finalizers. */
function release(service: Service, seatHolders: readonly string[], view: ClusterView): Step {
  const left = seatHolders.filter((name) => !isAbsent(service, name, view));
  const others = getIngress(service).filter((one) => !isOfDevice(one));
  if (left.length === 0)
    // Where vipnat serves it otherwise, the condition is about that.
    return clearStatus(service, others, others.length > 0) ?? dropOwners(service, seatHolders) ?? nothing;
  for (const name of left) {
    if (!view.devices.has(name)) {
      const remedy = `Make it again, or take the finalizer ${toDeviceFinalizer(name)} off this Service`;
      const message = `There is no LoadBalancerDevice ${name}, so vipnat cannot take its balancer away. ${remedy}.`;
      return lackDevice(service, message, view);
    }
    const problem = findBalancer(view, name, service)?.problem ?? null;
    if (problem !== null) return reportStatus(service, problem, view);
  }
  return waitForDevice;
}

function isAbsent(service: Service, device: string, view: ClusterView): boolean {
  return findBalancer(view, device, service)?.deviceStatus === 'absent';
}

/** An address is published once the device serves it, and stays so whatever the device says later: nobody else gets it meanwhile. */
function publish(service: Service, balancer: DeviceBalancer, view: ClusterView): Step | null {
  const before = service.status?.conditions ?? [];
  const known = getIngress(service);
  const ingress = listIngress(service, balancer);
  const added = ingress.filter((one) => !known.includes(one)).map(({ ip }) => ip);
  const isSame = ingress.length === known.length && added.length === 0;
  const wanted = describe(balancer);
  const conditions = wanted === null ? before : setCondition(before, wanted, view.nowMs);
  if (isSame && conditions === before) return null;
  const write = patchStatus('Service', service, toStatus(ingress, conditions));
  const message = `The device ${balancer.device} serves ${added.join(', ')}.`;
  if (added.length > 0) return toStep(write, { type: 'Normal', reason: 'AddressReady', message });
  const step = toStep(write, toEvent(wanted, findReason(before)));
  return isSame && isOfDeviceAlone(wanted, before) ? { ...step, isLowPriority: true } : step;
}

/** What a Service's status is to have of these. */
export function toStatus(
  ingress: readonly Ingress[],
  conditions: readonly Condition[],
): Readonly<Record<'loadBalancer' | 'conditions', Json>> {
  return {
    loadBalancer: { ingress: ingress.length === 0 ? null : toJson(ingress) },
    conditions: toJson(conditions),
  };
}

/** A device that fails is reported to each of its Services. */
function isOfDeviceAlone(wanted: WantedCondition | null, before: readonly Condition[]): boolean {
  return [wanted?.reason, findReason(before)].includes('DeviceFailed');
}

/** These addresses in a Service's status: what is there already stays as it is. */
export function toIngress(service: Service, texts: readonly string[], ipMode: 'VIP' | 'Proxy'): Ingress[] {
  const known = getIngress(service);
  return texts.map((ip) => known.find((one) => one.ip === ip && one.ipMode === ipMode) ?? { ip, ipMode });
}

function listIngress(service: Service, balancer: DeviceBalancer): readonly Ingress[] {
  return isServing(balancer) ? toIngress(service, balancer.addresses, 'Proxy') : getIngress(service);
}

function isServing({ deviceStatus, addresses }: DeviceBalancer): boolean {
  return deviceStatus === 'serves' && addresses.length > 0;
}

function findReason(conditions: readonly Condition[]): string | undefined {
  return findCondition(conditions, addressReady)?.reason;
}

/** Null: nothing is to be said yet. */
function describe(balancer: DeviceBalancer): WantedCondition | null {
  const { device, addresses, problem, remark } = balancer;
  if (problem !== null) return { type: addressReady, status: 'False', ...problem };
  if (!isServing(balancer)) return null;
  const message = `${addresses.join(', ')}: the device ${device} serves it.${remark === null ? '' : ` ${remark}`}`;
  return { type: addressReady, status: 'True', reason: remark === null ? 'Ready' : 'NotAsAsked', message };
}

function toEvent(wanted: WantedCondition | null, before: string | undefined): StepEvent | null {
  if (wanted === null || wanted.reason === before || wanted.reason === 'Ready') return null;
  const { reason, message } = wanted;
  if (reason === 'DeviceFailed' || reason === 'DeviceRefused' || reason === 'NotAsAsked')
    return { type: 'Warning', reason, message };
  return { type: 'Warning', reason: 'NoAddress', message };
}

function lackDevice(service: Service, message: string, view: ClusterView): Step {
  return reportStatus(service, { reason: 'NoDevice', message }, view);
}

/** Says why a Service has no device, or cannot leave one. */
function reportStatus(
  service: Service,
  { reason, message }: Pick<WantedCondition, 'reason' | 'message'>,
  view: ClusterView,
): Step {
  const before = service.status?.conditions ?? [];
  const wanted: WantedCondition = { type: addressReady, status: 'False', reason, message };
  const conditions = setCondition(before, wanted, view.nowMs);
  if (conditions === before) return waitForDevice;
  const event = toEvent(wanted, findReason(before));
  return toStep(patchStatus('Service', service, { conditions: toJson(conditions) }), event);
}

/** Another controller's finalizer goes when vipnat's is there and the device serves the Service. */
function dropFormer(service: Service, { deviceStatus, isTakenOver }: DeviceBalancer): Step | null {
  const known = service.metadata.finalizers ?? [];
  const finalizers = known.filter((each) => each !== formerFinalizer);
  if (finalizers.length === known.length || deviceStatus !== 'serves' || !isTakenOver) return null;
  return toStep(patchMetadata('Service', service, { finalizers }));
}

/** A Service's status with these addresses alone; without what it says of its readiness, unless that is about them. */
export function clearStatus(service: Service, others: readonly Ingress[], isAboutThem = false): Step | null {
  const [ingress, conditions] = [getIngress(service), service.status?.conditions ?? []];
  const kept = isAboutThem ? conditions : conditions.filter(({ type }) => type !== addressReady);
  if (others.length === ingress.length && kept.length === conditions.length) return null;
  return toStep(patchStatus('Service', service, toStatus(others, kept)));
}

function dropOwners(service: Service, devices: readonly string[]): Step | null {
  if (devices.length === 0) return null;
  const dropped = new Set(devices.map(toDeviceFinalizer));
  // Another controller's would hold what nothing is left of.
  const isLast = listCurrentOwners(service).length === devices.length;
  const finalizers = (service.metadata.finalizers ?? []).filter(
    (each) => !dropped.has(each) && !(isLast && each === formerFinalizer),
  );
  const message = devices.map((name) => `The device ${name} has nothing of it any more.`).join(' ');
  const event = { type: 'Normal', reason: 'AddressReleased', message } as const;
  return toStep(patchMetadata('Service', service, { finalizers }), event);
}

/** Devices: their finalizer, and what their writers say of them. */
export const loadBalancerDevice: Kind = {
  name: 'LoadBalancerDevice',
  source: 'devices',
  subject: { apiVersion: `${apiGroup}/${apiVersion}`, kind: 'LoadBalancerDevice' },
  watches: [
    { source: 'devices', toKeys: ({ key }) => [key] },
    { source: 'deviceReports', toKeys: ({ key }) => [key] },
    {
      source: 'services',
      part: ({ metadata }) => metadata.finalizers,
      toKeys: (_, { devices }) =>
        [...devices.values()].filter(isDeleted).map(({ metadata: { name } }) => name),
    },
  ],
  next: nextLoadBalancerDeviceStep,
};

/** A device that somebody deletes stays until no Service has anything there: without it nobody could take that away. */
function nextLoadBalancerDeviceStep(name: string, view: ClusterView): Step {
  const device = view.devices.get(name);
  if (device === undefined) return nothing;
  const step = keepFinalizer('LoadBalancerDevice', device, () => isOwner(name, view));
  return step ?? writeStatus(device, view) ?? nothing;
}

function isOwner(name: string, { deviceToServices, services }: ClusterView): boolean {
  const concerned = [...(deviceToServices.get(name) ?? [])].flatMap((key) => services.get(key) ?? []);
  return concerned.some((service) => listCurrentOwners(service).includes(name));
}

function writeStatus(device: LoadBalancerDevice, view: ClusterView): Step | null {
  const report = view.deviceReports.get(device.metadata.name);
  if (report === undefined || report.generation !== device.metadata.generation) return null;
  const before: readonly Condition[] = device.status?.conditions ?? [];
  const { isReady, reason, message, units, balancers, foreignChanges, draining, generation } = report;
  const wanted: WantedCondition = {
    ...{ type: 'Ready', status: isReady ? 'True' : 'False', reason },
    ...{ message: isDeleted(device) ? `It goes when no Service is there. ${message}` : message },
    observedGeneration: generation,
  };
  const conditions = setCondition(before, wanted, view.nowMs);
  const lists = { foreignChanges: toJson(foreignChanges), draining: toJson(draining) };
  const status = { units: toJson(units), balancers, ...lists, observedGeneration: generation };
  if (conditions === before && isSame(device.status, status)) return null;
  const write = patchStatus('LoadBalancerDevice', device, { ...status, conditions: toJson(conditions) });
  if (conditions === before) return { ...toStep(write), isLowPriority: true };
  return toStep(write, toDeviceEvent(findCondition(before, 'Ready'), wanted));
}

function isSame(known: LoadBalancerDevice['status'], status: { readonly [field: string]: Json }): boolean {
  const { units, foreignChanges, draining, balancers = null, observedGeneration = null } = known ?? {};
  const before = [units ?? [], balancers, foreignChanges ?? [], draining ?? [], observedGeneration];
  return toText(before) === toText(Object.values(status));
}

/** The API drops a field of null. */
function toText(value: unknown): string {
  return JSON.stringify(value, (_key, each: unknown) => each ?? undefined);
}

/** Where the condition begins to say so. */
function toDeviceEvent(
  before: Condition | null,
  { status, reason, message }: WantedCondition,
): StepEvent | null {
  if (before?.status === status && before.reason === reason) return null;
  if (status === 'False') return { type: 'Warning', reason: 'DeviceFailed', message };
  return before?.status === 'False' ? { type: 'Normal', reason: 'DeviceReady', message } : null;
}
