import type { DeviceReport } from '../../../../controller/cache/known.ts';
import type { Step } from '../../../../controller/step.ts';
import type { Service } from '../../../../lib/api/service.ts';
import {
  type DeviceInventory,
  makeDevice,
  makeDeviceWorld,
  makeDeviceCache,
  makeDeviceService,
  makeBalancer,
  publishOf,
} from '../../../support/fakes/device-objects.ts';
import { nextStep } from '../../../support/fakes/service-steps.ts';
import { describe, test, expect } from '@jest/globals';
import { makeService, nowMs } from '../../../support/fakes/service-objects.ts';

const held = 'device.vipnat.io/d';
const former = 'lb.zcloud.cn/protect';

interface Body {
  readonly metadata: { readonly finalizers?: readonly string[] };
  readonly status?: {
    readonly loadBalancer?: { readonly ingress: readonly { ip: string; ipMode: string }[] | null };
    readonly conditions: readonly { reason: string; status: string }[];
  };
}

function summarize(step: Step): string {
  if (step.does !== 'write') return step.does;
  const { metadata, status } = step.write.body as unknown as Body;
  if (status === undefined) return `finalizers ${metadata.finalizers?.join()}`;
  const ingress = (status.loadBalancer?.ingress ?? []).map(({ ip, ipMode }) => `${ip} ${ipMode}`);
  const conditions = status.conditions.map(({ reason, status: is }) => `${reason} ${is}`);
  return `status [${ingress.join()}] [${conditions.join()}] ${step.event?.reason ?? ''}`.trim();
}

function decide(service: Service, inventory: DeviceInventory = {}, defaultDevice?: string): string {
  const devices = [makeDevice('d'), makeDevice('e')];
  const world = makeDeviceWorld({ devices, services: [service], ...inventory }, defaultDevice);
  return summarize(nextStep({ kind: 'Service', key: 'apps/a' }, world));
}

const make = (parts: object = {}) => makeDeviceService('apps/a', 'd', parts);
const of = (device: string, parts: object = {}): DeviceInventory => ({
  deviceBalancers: [makeBalancer(device, 'apps/a', parts)],
});
const both = (d: object, e: object): DeviceInventory => ({
  deviceBalancers: [makeBalancer('d', 'apps/a', d), makeBalancer('e', 'apps/a', e)],
});
const readiness = { type: 'vipnat.io/AddressReady', status: 'True', reason: 'Ready' };
const ready = { ...readiness, message: '10.9.0.1: the device d serves it.' };
const served = { status: { ...publishOf('10.9.0.1'), conditions: [ready] } };
const failed = { problem: { reason: 'DeviceFailed', message: 'It does not answer.' } };
const unread = { deviceStatus: 'unknown' };
const ending = { deletionTimestamp: '2027-01-01T00:00:00Z' };
const isAnnotated = { annotations: { 'lb.zcloud.cn/vip': '10.9.0.1' }, finalizers: [] };
const noClass = { loadBalancerClass: null };

describe('a Service of a device', () => {
  const foreign = make({ metadata: { finalizers: ['x.io/y'] } });
  const fresh = make({ metadata: { finalizers: [] } });
  const ofNone = make({ spec: { loadBalancerClass: 'vipnat.io/x' }, metadata: { finalizers: [] } });
  const goes = { devices: [makeDevice('d', {}, ending)] };
  const failing = of('d', { ...unread, ...failed });
  const has = (ip: string, event: string, condition = `${event} True`) =>
    `status [${ip} Proxy] [${condition}] ${event}`;
  const isReady = (ip: string) => has(ip, 'AddressReady', 'Ready True');
  test.each<[string, Service, DeviceInventory, string]>([
    ['gets the finalizer first', foreign, {}, `finalizers x.io/y,${held}`],
    ['waits for the device', make(), {}, 'wait'],
    ['waits as long as nobody knows what the device has', make(served), {}, 'wait'],
    ['is published when it is served', make(), of('d'), isReady('10.9.0.1')],
    ['is done then', make(served), of('d'), 'wait'],
    ['is not published before', make(), of('d', unread), 'wait'],
    ['says what fails', make(), failing, 'status [] [DeviceFailed False] DeviceFailed'],
    ['keeps its address then', make(served), failing, has('10.9.0.1', 'DeviceFailed', 'DeviceFailed False')],
    ['says what is left out', make(served), of('d', { remark: 'No.' }), has('10.9.0.1', 'NotAsAsked')],
    ['has another address then', make(served), of('d', { addresses: ['10.9.0.2'] }), isReady('10.9.0.2')],
    ['of a device that is not there', ofNone, {}, 'status [] [NoDevice False] NoAddress'],
    ['of a device that goes', fresh, goes, 'status [] [NoDevice False] NoAddress'],
  ])('%s', (_, service, inventory, expected) => {
    expect(decide(service, inventory)).toBe(expected);
  });

  test('of a class like a device, where there are none, is nobody of ours', () => {
    expect(decide(fresh, { devices: [] })).toBe('nothing');
  });
});

describe('a Service that leaves a device', () => {
  const leaving = make({ ...served, metadata: { ...ending, finalizers: [held] } });
  const cleared = make({ metadata: { ...ending, finalizers: [held, former] } });
  const gone = { deviceStatus: 'absent', addresses: [] };
  const ofOtherType = make({ spec: { type: 'ClusterIP', loadBalancerClass: null } });
  const metadata = { finalizers: [held, 'device.vipnat.io/e'] };
  const toOther = { spec: { loadBalancerClass: 'vipnat.io/e' }, metadata };
  const moving = make({ ...served, ...toOther });
  const later = 'status [10.9.0.7 Proxy] [Ready True] AddressReady';
  const conditions = [{ ...ready, message: '10.9.0.1: the device e serves it.' }];
  const moved = make({ ...toOther, status: { ...publishOf('10.9.0.1'), conditions } });
  test.each<[string, Service, DeviceInventory, string]>([
    ['keeps all while nobody knows', leaving, {}, 'wait'],
    ['keeps all while the device has it', leaving, of('d'), 'wait'],
    ['says why it cannot', leaving, of('d', failed), 'status [] [DeviceFailed False] DeviceFailed'],
    ['says that the device is gone', leaving, { devices: [] }, 'status [] [NoDevice False] NoAddress'],
    ['loses its address then', leaving, of('d', gone), 'status [] []'],
    ['loses its finalizers at last', cleared, of('d', gone), 'finalizers '],
    ['of another type, too', ofOtherType, of('d', { deviceStatus: 'absent' }), 'finalizers '],
    ['for another keeps its address until that serves', moving, both({}, unread), 'wait'],
    ['for another has its new address then', moving, both({}, { addresses: ['10.9.0.7'] }), later],
    ['for another lets the one before go', moved, both(gone, {}), 'finalizers device.vipnat.io/e'],
  ])('%s', (_, service, inventory, expected) => {
    expect(decide(service, inventory)).toBe(expected);
  });
});

describe("another controller's Services", () => {
  const annotated = makeService('apps/a', { metadata: isAnnotated, spec: noClass });
  const takenOver = makeService('apps/a', {
    ...{ spec: noClass, status: { ...publishOf('10.9.0.1'), conditions: [ready] } },
    metadata: { ...isAnnotated, finalizers: [former, held] },
  });

  test('are nobody of ours without --default-device', () => {
    expect(decide(annotated)).toBe('nothing');
  });

  test('get the finalizer with it, and lose the other one when the device serves them and their Endpoints are free', () => {
    expect(decide(annotated, {}, 'd')).toBe(`finalizers ${held}`);
    expect(decide(takenOver, of('d', { deviceStatus: 'unknown' }), 'd')).toBe('wait');
    expect(decide(takenOver, of('d'), 'd')).toBe('wait');
    expect(decide(takenOver, of('d', { isTakenOver: true }), 'd')).toBe(`finalizers ${held}`);
  });

  test('that end before that are left to the other one', () => {
    const metadata = { ...isAnnotated, ...ending, finalizers: [former] };
    expect(decide(makeService('apps/a', { metadata, spec: noClass }), {}, 'd')).toBe('nothing');
  });
});

test('a status that says what is known is not written again, though the API drops its nulls', () => {
  const after: DeviceReport = {
    units: [{ unit: 'u1', role: 'silent', isInSync: null, why: '' }],
    draining: [{ service: 'apps/a', member: '10.1.0.1:80', since: '2027-01-15T08:00:00Z', sessions: null }],
    ...{ generation: 1, balancers: 1, foreignChanges: [], isReady: true, reason: 'NotInSync', message: 'm' },
  };
  const decideWith = (status: object | null) => {
    const cache = makeDeviceCache({ devices: [makeDevice('d', {}, {}, status && { ...status })] });
    cache.take('deviceReports', { key: 'd', after });
    return nextStep({ kind: 'LoadBalancerDevice', key: 'd' }, cache.view(nowMs));
  };
  const step = decideWith(null);
  if (step.does !== 'write') throw new Error(step.does);
  const { status } = JSON.parse(
    JSON.stringify(step.write.body, (_key, value: unknown) => value ?? undefined),
  ) as { readonly status: object };
  expect(decideWith(status).does).not.toBe('write');
});
