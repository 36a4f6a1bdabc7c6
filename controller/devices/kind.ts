import {
  type Kind,
  type Step,
  nothing,
  toStep,
  patchMetadata,
  toJson,
  patchStatus,
  type Json,
  type StepEvent,
} from '../step.ts';
import { apiGroup, apiVersion, finalizer, type Condition } from '../../lib/api/vipnat.ts';
import type { ClusterView } from '../cache/cache.ts';
import { type LoadBalancerDevice, listCurrentOwners } from '../../lib/api/device.ts';
import { type WantedCondition, setCondition, findCondition } from '../cache/parts.ts';

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
  return keepFinalizer(device, view) ?? writeStatus(device, view) ?? nothing;
}

function isDeleted({ metadata }: LoadBalancerDevice): boolean {
  return typeof metadata.deletionTimestamp === 'string';
}

function keepFinalizer(device: LoadBalancerDevice, view: ClusterView): Step | null {
  const { finalizers, name } = device.metadata;
  const known = finalizers ?? [];
  if (!isDeleted(device))
    return known.includes(finalizer)
      ? null
      : toStep(patchMetadata('LoadBalancerDevice', device, { finalizers: [...known, finalizer] }));
  if (!known.includes(finalizer) || isOwner(name, view)) return null;
  const finalizersLeft = known.filter((each) => each !== finalizer);
  return toStep(patchMetadata('LoadBalancerDevice', device, { finalizers: finalizersLeft }));
}

function isOwner(name: string, { deviceToServices, services }: ClusterView): boolean {
  return [...(deviceToServices.get(name) ?? [])].some((key) => {
    const service = services.get(key);
    return service !== undefined && listCurrentOwners(service).includes(name);
  });
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
  return toStep(write, toEvent(findCondition(before, 'Ready'), wanted));
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
function toEvent(before: Condition | null, { status, reason, message }: WantedCondition): StepEvent | null {
  if (before?.status === status && before.reason === reason) return null;
  if (status === 'False') return { type: 'Warning', reason: 'DeviceFailed', message };
  return before?.status === 'False' ? { type: 'Normal', reason: 'DeviceReady', message } : null;
}
