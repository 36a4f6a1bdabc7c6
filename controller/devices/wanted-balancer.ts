/** What a Service is to be on a device that it has chosen. Pure. */
import { families, type Family } from '../../lib/address/address.ts';
import {
  type Balancer,
  type BalancerId,
  type Capabilities,
  type DeviceMethod,
  type Listener,
} from '../../lib/devices/driver.ts';
import { type LoadBalancerDevice } from '../../lib/services/devices.ts';
import { findUnknownMethod } from '../../lib/services/methods.ts';
import { countOfFamily, parseRange } from '../../lib/services/ranges.ts';
import { type Service, type ServicePort } from '../../lib/services/services.ts';
import { readAnnotation, readDuration, readWishes, type Wishes } from '../../lib/services/wishes.ts';
import { quoteTenant } from '../../lib/text/printable.ts';
import { type DeviceProblem } from '../cache/device-reports.ts';
import { type World } from '../cache/world.ts';
import { chooseDeviceAddress } from './choose-address.ts';
import { readGatedSlices } from './gated-pods.ts';
import { type FormerMembers, listMembers, type MembersQuery } from './wanted-members.ts';

/** A Service, and what its device has for it. */
export interface BalancerQuery {
  readonly service: Service;
  readonly device: LoadBalancerDevice;
  readonly capabilities: Capabilities;
  /** Addresses that the device has for it, in canonical text. */
  readonly present: readonly string[];
  readonly former: FormerMembers;
  /** By a clock that does not jump. */
  readonly nowMs: number;
}

/** What is to be there. */
export interface Wanted {
  /** Null: nothing, as `problem` says; what is there stays. */
  readonly balancer: Balancer | null;
  readonly problem: DeviceProblem | null;
  /** What the device leaves out, as a sentence; null for nothing. */
  readonly remark: string | null;
  /** The uids of pods with gates that it sends connections to, as if they were open; none of them through the ports of nodes. */
  readonly gated: readonly string[];
}

/** Connections of HTTP end within it; what lasts longer can ask for more with `vipnat.io/drain-timeout`. */
export const usualDrainMs = 60_000;

/** What a device is to have for a Service. */
export function toWanted(query: BalancerQuery, world: World): Wanted {
  const { service, device } = query;
  const wishes = readWishes(service);
  const refusal = findRefusal(query, wishes);
  if (refusal !== null) return refuse(refusal);
  const family = chooseFamily(query, wishes);
  if (family === null) {
    const message = `The device ${device.metadata.name} has no addresses of a family that the Service has (${wishes.families.join(', ')}).`;
    return refuse({ reason: 'NotSupported', message });
  }
  const { address, problem } = chooseDeviceAddress({ ...query, family }, world);
  if (address === null) return refuse(problem);
  const { method, affinityS, lacks } = judgeWishes(query);
  const ports = listPorts(query);
  const { slices, uids } = readGatedSlices(service, device, world);
  const listeners = ports.map((port) => toListener(port, { ...query, family, slices }, world));
  if (listeners.length === 0) return refuse(describeNoPort(query));
  const balancer: Balancer = {
    ...{ id: toBalancerId(service, device), addresses: [address], method, affinityS },
    listeners: listeners.sort((one, other) => compareListeners(one, other)),
  };
  const all = [...lacks, ...listLacking(query, wishes, { family, listeners })];
  return { balancer, problem, remark: toRemark(device, all), gated: uids };
}

function refuse(problem: DeviceProblem | null): Wanted {
  return { balancer: null, problem, remark: null, gated: [] };
}

/** The mark of a Service on a device. */
export function toBalancerId({ metadata }: Service, { spec }: LoadBalancerDevice): BalancerId {
  const { namespace, name, uid } = metadata;
  return { cluster: spec.cluster, namespace, name, uid };
}

/** What no part of can be left out. */
function findRefusal({ service, device }: BalancerQuery, wishes: Wishes): DeviceProblem | null {
  const { name } = device.metadata;
  const ranges = (service.spec.loadBalancerSourceRanges ?? []).map((text) => text.trim());
  const isLimited = ranges.length > 0 && !ranges.some((text) => text === '0.0.0.0/0' || text === '::/0');
  if (isLimited) {
    const message = `The device ${name} lets all clients in, and the Service has loadBalancerSourceRanges.`;
    return { reason: 'NotSupported', message };
  }
  if (!wishes.isAllOrNothing) return null;
  const message = `The device ${name} serves one family, and the Service asks for two (RequireDualStack).`;
  return { reason: 'NotSupported', message };
}

/** The first of the Service's that the device has addresses of. */
function chooseFamily({ device, capabilities }: BalancerQuery, { families: wanted }: Wishes): Family | null {
  const ranges = device.spec.addresses.flatMap((text) => parseRange(text) ?? []);
  const able = families.filter(
    (family) => (family === 'ipv4' || capabilities.ipv6) && countOfFamily(ranges, family) > 0n,
  );
  return wanted.find((family) => able.includes(family)) ?? null;
}

function judgeWishes({ service, capabilities }: BalancerQuery): Pick<Balancer, 'method' | 'affinityS'> & {
  readonly lacks: readonly string[];
} {
  const { method, lack } = chooseMethod(service, capabilities);
  const seconds = service.spec.sessionAffinityConfig?.clientIP?.timeoutSeconds ?? usualAffinityS;
  const isSticky = service.spec.sessionAffinity === 'ClientIP';
  const isLost = isSticky && !capabilities.affinity;
  return {
    ...{ method, affinityS: isSticky && !isLost ? seconds : null },
    lacks: [...(lack === null ? [] : [lack]), ...(isLost ? ['the session affinity'] : [])],
  };
}

/** Source: core/v1, DefaultClientIPServiceAffinitySeconds. */
const usualAffinityS = 10_800;

const isMethod = (text: string): text is DeviceMethod => ['rr', 'lc', 'hash'].includes(text);

/** Devices have no `random`: in turn is as even. */
function chooseMethod(
  service: Service,
  { methods }: Capabilities,
): { readonly method: DeviceMethod; readonly lack: string | null } {
  const text = readAnnotation(service, 'method') ?? '';
  const asked = isMethod(text) ? text : 'rr';
  const unknown = findUnknownMethod(service);
  if (methods.includes(asked))
    return { method: asked, lack: unknown === null ? null : `the method ${quoteTenant(unknown)}` };
  const [first = 'rr'] = methods;
  return { method: methods.includes('rr') ? 'rr' : first, lack: `the method ${asked}` };
}

/** Those that the device can have. */
function listPorts({ service, device, capabilities }: BalancerQuery): ServicePort[] {
  const isNodePort = device.spec.targets !== 'pods';
  return (service.spec.ports ?? []).filter(
    ({ protocol, nodePort }) =>
      (protocol === 'TCP' || (protocol === 'UDP' && capabilities.udp)) &&
      (!isNodePort || (nodePort ?? 0) > 0),
  );
}

function describeNoPort({ service, device }: BalancerQuery): DeviceProblem {
  const lacksNodePorts = (service.spec.ports ?? []).some(({ nodePort }) => (nodePort ?? 0) === 0);
  const remedy =
    device.spec.targets !== 'pods' && lacksNodePorts
      ? 'it sends to node ports: see allocateLoadBalancerNodePorts'
      : 'it does not have their protocols';
  const message = `The device ${device.metadata.name} can have none of the Service's ports: ${remedy}.`;
  return { reason: 'NotSupported', message };
}

function toListener(
  port: ServicePort,
  { service, device, former, nowMs, family, slices }: BalancerQuery & Pick<MembersQuery, 'family' | 'slices'>,
  world: World,
): Listener {
  const drainMs = readDuration(service, 'drainTimeout').ms ?? usualDrainMs;
  return {
    protocol: port.protocol === 'UDP' ? 'udp' : 'tcp',
    port: port.port,
    members: listMembers({ service, device, port, slices, family, former, drainMs, nowMs }, world),
  };
}

function compareListeners(one: Listener, other: Listener): number {
  return one.port === other.port ? (one.protocol < other.protocol ? -1 : 1) : one.port - other.port;
}

function listLacking(
  query: BalancerQuery,
  wishes: Wishes,
  { family, listeners }: { readonly family: Family; readonly listeners: readonly Listener[] },
): string[] {
  const { service, capabilities } = query;
  const served = new Set(listPorts(query));
  const ports = (service.spec.ports ?? []).filter((port) => !served.has(port));
  const weights = listeners.map(({ members }) =>
    members.map(({ weight }) => weight).filter((one) => one > 0),
  );
  const areUneven = weights.some((each) => new Set(each).size > 1);
  return [
    ...ports.map(({ protocol, port }) => `the port ${protocol} ${port}`),
    ...wishes.families.filter((each) => each !== family).map((each) => `the family ${each}`),
    ...(areUneven && !capabilities.weights ? ['weights'] : []),
  ];
}

function toRemark({ metadata: { name } }: LoadBalancerDevice, lacks: readonly string[]): string | null {
  return lacks.length === 0 ? null : `The device ${name} does not have ${lacks.join(', ')}.`;
}
